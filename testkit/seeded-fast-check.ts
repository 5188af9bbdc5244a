import { jest } from '@jest/globals';
import fc from 'fast-check';

// jest's seed determines the random values, as it determines the order of files: a failed property prints it, and TEST_SEED or
// `npm run jest -- --seed=…` repeats it.
fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: jest.getSeed() });

/** fast-check for unit tests. */
export default fc;
