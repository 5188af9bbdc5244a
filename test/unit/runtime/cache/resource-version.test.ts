import { expect, test } from '@jest/globals';
import { compareResourceVersions } from '../../../../packages/runtime/src/cache/resource-version.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';

test.each([
  ['1', '2', -1],
  ['2', '1', 1],
  ['9', '10', -1],
  ['10', '9', 1],
  ['10', '10', 0],
  ['0', '1', -1],
  // Beyond what a double can tell apart.
  ['9007199254740993', '9007199254740992', 1],
  ['18446744073709551615', '18446744073709551616', -1],
])('%s compared with %s is %d', (a, b, sign) => {
  expect(Math.sign(compareResourceVersions(a, b))).toBe(sign);
});

test('compares as the numbers do', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n }), fc.bigInt({ min: 0n }), (a, b) => {
      expect(Math.sign(compareResourceVersions(String(a), String(b)))).toBe(a < b ? -1 : a > b ? 1 : 0);
    }),
  );
});
