import { expect, test } from '@jest/globals';
import { durationMs } from '../../../../src/controllers/book-store/duration.ts';

test.each([
  ['5m', 300_000],
  ['90s', 90_000],
  ['1h30m', 5_400_000],
  ['1.5s', 1500],
  ['250ms', 250],
  ['0s', 0],
])('%s is %d ms', (text, expected) => {
  expect(durationMs(text)).toBe(expected);
});

test.each(['', '5', 'm', '5 m', '5m!', '-5m', '1d'])('%j is no duration', (text) => {
  expect(() => durationMs(text)).toThrow(RangeError);
});
