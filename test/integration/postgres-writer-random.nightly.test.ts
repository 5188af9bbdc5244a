import { testRandomPostgresWriters } from './environment/random-postgres-writers.ts';
import { nightlyPlan } from './environment/random-runs.ts';

/** `POSTGRES_MINUTES` is how long it takes; `POSTGRES_SEED` repeats a run. */
testRandomPostgresWriters(nightlyPlan('POSTGRES'));
