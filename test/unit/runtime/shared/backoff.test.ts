import { afterEach, expect, jest, test } from '@jest/globals';
import { Backoff } from '../../../../packages/runtime/src/shared/backoff.ts';

afterEach(() => {
  jest.restoreAllMocks();
});

const waits = (backoff: Backoff, count: number): number[] => Array.from({ length: count }, () => backoff.next());

test.each([
  [0, [400, 800, 1600, 3200, 5000, 5000]],
  [0.5, [800, 1600, 3200, 6400, 10_000, 10_000]],
])('doubles up to its limit, with a random number of %d', (random, expected) => {
  jest.spyOn(Math, 'random').mockReturnValue(random);
  expect(waits(new Backoff({ initialMs: 800, maxMs: 10_000 }), 6)).toEqual(expected);
});

test('adds ±50 % jitter, so that clients that failed together do not retry together', () => {
  const backoff = new Backoff({ initialMs: 100, maxMs: 100 });
  const many = waits(backoff, 1000);
  expect(Math.min(...many)).toBeGreaterThanOrEqual(50);
  expect(Math.max(...many)).toBeLessThan(150);
  expect(new Set(many).size).toBeGreaterThan(900);
});

test('starts from the initial pause after a reset', () => {
  jest.spyOn(Math, 'random').mockReturnValue(0.5);
  const backoff = new Backoff({ initialMs: 100, maxMs: 10_000 });
  waits(backoff, 3);
  backoff.reset();
  expect(waits(backoff, 2)).toEqual([100, 200]);
});
