import { nightlyPlan } from '../../testkit/random-runs.ts';
import { testRandomPostgresWriters } from './environment/random-postgres-writers.ts';

/** `POSTGRES_MINUTES` is how long it takes; `POSTGRES_SEED` repeats a run. */
testRandomPostgresWriters(nightlyPlan('POSTGRES'));
