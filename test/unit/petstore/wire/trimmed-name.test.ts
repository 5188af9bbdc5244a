import { trimmedName } from '@echoperator/petstore/wire';
import { expect, test } from '@jest/globals';

test.each([
  ['Thor', 'Thor'],
  [' \u00a0Thor \u3000 ', 'Thor'],
  ['\u0085Thor\u2028\r\n', 'Thor'],
  ['Thor \t Odinson', 'Thor \t Odinson'],
  // Not white space in Unicode, although String.prototype.trim() takes it for some.
  ['\ufeffThor', '\ufeffThor'],
  ['\u{1f431} ', '\u{1f431}'],
  [' \ud83d ', '\ud83d'],
  ['\u2003', ''],
  ['', ''],
])('the name %j is kept as %j', (name, kept) => {
  expect(trimmedName(name)).toBe(kept);
});

test.each([[`a${' '.repeat(1_000_000)}b`], [' '.repeat(1_000_000)], [`${'a '.repeat(500_000)}b`]])(
  'a name of a million characters is trimmed within a second',
  (name) => {
    const startedAtMs = performance.now();
    trimmedName(name);
    expect(performance.now() - startedAtMs).toBeLessThan(1000);
  },
);
