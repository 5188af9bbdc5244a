import { testRandomPostgresWriters } from './environment/random-postgres-writers.ts';

testRandomPostgresWriters({ seed: 1, maxRuns: 2, minEffectiveRuns: 2 });
