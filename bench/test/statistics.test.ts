import { describe, expect, test } from '@jest/globals';
import { evenQuantiles, median, medianWithInterval, quantile, rankCorrelation } from '../statistics.ts';

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

test('the rank correlation is 1 in ascending order, -1 in descending order, and between them otherwise', () => {
  expect(rankCorrelation([3, 5, 9, 20])).toBe(1);
  expect(rankCorrelation([20, 9, 5, 3])).toBe(-1);
  // The first half comes last.
  expect(rankCorrelation([3, 4, 1, 2])).toBeCloseTo(-0.6);
});

describe('the interval of a median', () => {
  test('of seven values reaches from the least to the greatest', () => {
    expect(medianWithInterval([1.1, 0.9, 1.3, 1.0, 1.2, 0.8, 5])).toEqual({
      median: 1.1,
      low: 0.8,
      high: 5,
      count: 7,
      coverage: 0.984375,
    });
  });

  test('of nine values leaves out the least and the greatest', () => {
    expect(medianWithInterval(upTo(9).reverse())).toEqual({
      median: 5,
      low: 2,
      high: 8,
      count: 9,
      coverage: 0.9609375,
    });
  });

  test('of few values has the coverage that they allow', () => {
    expect(medianWithInterval([3, 1, 2])).toEqual({ median: 2, low: 1, high: 3, count: 3, coverage: 0.75 });
    expect(medianWithInterval([2, 4])).toEqual({ median: 3, low: 2, high: 4, count: 2, coverage: 0.5 });
    expect(medianWithInterval([2])).toEqual({ median: 2, low: 2, high: 2, count: 1, coverage: 0 });
  });

  // The same ranks and probability as in published tables of the sign test for n = 20.
  test('of twenty values is from the sixth to the fifteenth', () => {
    const { low, high, coverage } = medianWithInterval(upTo(20));
    expect([low, high, coverage.toFixed(4)]).toEqual([6, 15, '0.9586']);
  });
});
