import { nightlyPlan } from '../../testkit/random-runs.ts';
import { testRandomPets } from './environment/random-pets.ts';

/** `PETS_MINUTES` is how long it takes; `PETS_SEED` repeats a run. */
testRandomPets(nightlyPlan('PETS'));
