import { testRandomPets } from './environment/random-pets.ts';
import { nightlyPlan } from './environment/random-runs.ts';

/** `PETS_MINUTES` is how long it takes; `PETS_SEED` repeats a run. */
testRandomPets(nightlyPlan('PETS'));
