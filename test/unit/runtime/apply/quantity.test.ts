import { describe, expect, test } from '@jest/globals';
import { compareQuantities } from '../../../../src/runtime/controller/index.ts';

describe('compareQuantities', () => {
  test.each([
    ['1Gi', '1024Mi', 0],
    ['1Gi', '1G', 1],
    ['1500m', '1.5', 0],
    ['500m', 1, -1],
    [2, '1', 1],
    ['1e3', '1k', 0],
    ['+1', '1', 0],
    ['-1', '0', -1],
    ['9Ei', '9E', 1],
  ])('compares %j with %j by value', (a, b, expected) => {
    expect(compareQuantities(a, b)).toBe(expected);
    expect(compareQuantities(b, a)).toBe(0 - expected);
  });

  test.each(['', 'much', '1 Gi', '1gi'])('refuses %j', (text) => {
    expect(() => compareQuantities(text, '1')).toThrow(`invalid quantity: "${text}"`);
    expect(() => compareQuantities('1', text)).toThrow(RangeError);
  });
});
