import { isDeepStrictEqual } from 'node:util';
import { expect, test } from '@jest/globals';
import { share } from '../../../../packages/runtime/src/cache/sharing.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';

const metadata = { name: 'a-name', uid: 'a-uid' };

test('equal parts are replaced by those of the reference, others stay', () => {
  const reference = { metadata, spec: { image: { name: 'busybox' }, args: ['a', { b: 1 }, 'c'], size: 1 } };
  const object = {
    metadata: { name: 'other', uid: 'x' },
    spec: { image: { name: 'busybox' }, args: ['a', { b: 1 }, 'd'], size: 2 },
  };
  const shared = share<typeof object>(object, reference);
  expect(shared).toBe(object);
  expect(shared.spec.image).toBe(reference.spec.image);
  expect(shared.spec.args[1]).toBe(reference.spec.args[1]);
  expect(shared).toEqual({
    metadata: { name: 'other', uid: 'x' },
    spec: { image: { name: 'busybox' }, args: ['a', { b: 1 }, 'd'], size: 2 },
  });
});

test('an equal object is replaced by the reference', () => {
  const reference = { metadata, list: [{ a: 1 }] };
  expect(share(structuredClone(reference), reference)).toBe(reference);
});

test('a frozen part is not written to', () => {
  const spec = Object.freeze({ size: {} });
  const object = { metadata: { name: 'b', uid: 'x' }, spec };
  expect(share(object, { metadata, spec: Object.freeze({ size: {} }) }).spec).toBe(spec);
});

test('neither the value of the object nor that of the reference changes', () => {
  // Few values and keys, so that parts are often equal.
  const json = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom(null, 0, 1, '', 'a-name', 'a-uid', 'long enough to be a copy', true),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('a', 'b', 'c', '__proto__', 'constructor'), tie('value'), { maxKeys: 3 }),
    ),
  })).value;
  fc.assert(
    fc.property(json, json, (one, two) => {
      const reference: { metadata: typeof metadata; spec: unknown } = JSON.parse(
        JSON.stringify({ metadata, spec: one }),
      );
      const before = JSON.stringify(reference);
      const text = JSON.stringify({ metadata, spec: two });
      expect(isDeepStrictEqual(share(JSON.parse(text), reference), JSON.parse(text))).toBe(true);
      expect(JSON.stringify(reference)).toBe(before);
    }),
    { numRuns: 500 },
  );
});
