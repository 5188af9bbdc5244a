import { afterAll, afterEach, beforeAll, beforeEach, test } from '@jest/globals';
import { growsThroughFaults, setUpFaults, tearDownFaults } from './environment/book-store-faults-world.ts';
import { setUp, tearDown } from './environment/book-store-world.ts';

beforeAll(() => setUp('book-store-faults', { operator: false }), 120_000);
afterAll(() => tearDown(), 120_000);
beforeEach(() => setUpFaults(), 60_000);
afterEach(() => tearDownFaults(), 60_000);

test('a growth comes to its end through lost answers and failed requests', () =>
  growsThroughFaults({ cutWatches: false }));
