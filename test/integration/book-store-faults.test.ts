import { afterAll, afterEach, beforeAll, beforeEach, test } from '@jest/globals';
import { growsThroughFaults, setUpFaults, tearDownFaults } from './environment/book-store-faults-world.ts';
import { setUp, tearDown } from './environment/book-store-world.ts';

beforeAll(() => setUp('book-store-faults', { operator: false }));
afterAll(() => tearDown());
beforeEach(() => setUpFaults());
afterEach(() => tearDownFaults());

test('a growth comes to its end through lost answers and failed requests', () =>
  growsThroughFaults({ cutWatches: false }));
