import { jest } from '@jest/globals';
import fc from 'fast-check';

// Every run of the unit tests draws the same values, so that a push fails only because of its own changes. nightly-unit
// draws other values, from jest's seed. A failed property prints the seed, and TEST_SEED repeats the run.
const seed = process.env.RANDOM_VALUES === 'other' ? jest.getSeed() : 1;
fc.configureGlobal({ ...fc.readConfigureGlobal(), seed });

/** fast-check for unit tests. */
export default fc;
