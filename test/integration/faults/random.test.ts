import { testRandomFaults } from './environment/random-faults-test.ts';

testRandomFaults({ seed: 1, maxRuns: 1, minEffectiveRuns: 1 });
