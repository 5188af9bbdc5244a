import { testRandomFaults } from './environment/random-faults-test.ts';

testRandomFaults({ seed: 1, maxRuns: 3, minEffectiveRuns: 3 });
