import { afterAll, afterEach, beforeAll, beforeEach, test } from '@jest/globals';
import {
  growsThroughFaults,
  isHandOver,
  killedAt,
  setUpFaults,
  tearDownFaults,
} from './environment/book-store-faults-world.ts';
import { setUp, tearDown } from './environment/book-store-world.ts';

beforeAll(() => setUp('book-store-faults', { operator: false }), 120_000);
afterAll(() => tearDown(), 120_000);
beforeEach(() => setUpFaults(), 60_000);
afterEach(() => tearDownFaults(), 60_000);

test('an operator that is killed when the StatefulSet is made anew has a successor that goes on from there', () =>
  killedAt(isHandOver));

test('a growth comes to its end through lost answers and refused requests', () =>
  growsThroughFaults({ cutWatches: false }));
