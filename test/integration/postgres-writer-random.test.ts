import { testRandomPostgresWriters } from './environment/random-postgres-writers.ts';

testRandomPostgresWriters({ seed: 1, maxRuns: 4, minEffectiveRuns: 4 });
