import { expect, test } from '@jest/globals';
import { evenQuantiles, median, medianWithInterval, quantile } from '../statistics.ts';

const upTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1);

test('a quantile is the nearest rank', () => {
  const values = upTo(200).reverse();
  expect([0, 0.5, 0.99, 1].map((part) => quantile(values, part))).toEqual([1, 100, 198, 200]);
  expect(quantile([7], 0.99)).toBe(7);
  expect(() => quantile([], 0.5)).toThrow('no values');
});

test('quantiles in even steps begin with the smallest value and end with the largest', () => {
  expect(evenQuantiles([30, 10, 20, 40], 4)).toEqual([10, 10, 20, 30, 40]);
  expect(evenQuantiles(upTo(1000).reverse(), 200)[100]).toBe(500);
  expect(() => evenQuantiles([], 4)).toThrow('no values');
});

test('the median of an even number of values is the mean of the two in the middle', () => {
  expect([median([3, 1, 2]), median([4, 1, 2, 3])]).toEqual([2, 2.5]);
});

test("a median's interval holds it, lies within the values, and is the same each time", () => {
  const values = [1.1, 0.9, 1.3, 1.0, 1.2, 0.8, 5];
  const { median: middle, low, high } = medianWithInterval(values);
  expect(middle).toBe(1.1);
  expect(low).toBeGreaterThanOrEqual(0.8);
  expect(low).toBeLessThan(middle);
  expect(high).toBeGreaterThan(middle);
  expect(high).toBeLessThanOrEqual(5);
  expect(medianWithInterval(values)).toEqual({ median: middle, low, high });
  expect(medianWithInterval([2, 2, 2])).toEqual({ median: 2, low: 2, high: 2 });
});
