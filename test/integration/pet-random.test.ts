import { testRandomPets } from './environment/random-pets.ts';

testRandomPets({ seed: 1, maxRuns: 4, minEffectiveRuns: 3 });
