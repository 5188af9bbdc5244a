import { nightlyPlan } from '../../../testkit/random-runs.ts';
import { testRandomFaults } from './environment/random-faults-test.ts';

/** `FAULTS_MINUTES` is how long each of the two tests takes; `FAULTS_SEED` repeats a run. */
testRandomFaults(nightlyPlan('FAULTS'));
