import { compareQuantities } from '@echoperator/runtime/controller';
import { describe, expect, test } from '@jest/globals';
import { equalQuantities } from '../../../../packages/runtime/src/apply/quantity.ts';

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

test('a quantity longer than any that has a meaning is invalid, instead of computed for seconds', () => {
  const digits = '1'.repeat(1_000_000);
  const startedAtMs = performance.now();
  for (const text of [digits, `0.${digits}`, `${digits}Gi`]) {
    expect(equalQuantities(text, '1')).toBe(false);
    expect(() => compareQuantities(text, '1')).toThrow(RangeError);
  }
  expect(performance.now() - startedAtMs).toBeLessThan(2000);
});
