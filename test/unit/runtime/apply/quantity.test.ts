import { describe, expect, test } from '@jest/globals';
import { compareQuantities } from '../../../../src/runtime/controller/index.ts';

describe('quantities', () => {
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
  ])('%j and %j are compared by amount', (a, b, expected) => {
    expect(compareQuantities(a, b)).toBe(expected);
    expect(compareQuantities(b, a)).toBe(0 - expected);
  });

  test.each(['', 'much', '1 Gi', '1gi'])('%j is none', (text) => {
    expect(() => compareQuantities(text, '1')).toThrow(`no quantity: "${text}"`);
    expect(() => compareQuantities('1', text)).toThrow(RangeError);
  });
});
