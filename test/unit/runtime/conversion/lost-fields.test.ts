import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { JsonObject } from '../../../../packages/runtime/src/apply/json.ts';
import { isLostFields, lostFields, withLostFields } from '../../../../packages/runtime/src/conversion/lost-fields.ts';

const parsed = <T>(value: T): T => JSON.parse(JSON.stringify(value));
const objects = fc.dictionary(
  fc.oneof(fc.constantFrom('a', 'b', '__proto__', 'toString', 'constructor'), fc.string({ maxLength: 2 })),
  fc.jsonValue({ maxDepth: 3 }),
) as fc.Arbitrary<JsonObject>;

test('what is lost of any content comes back, and is recognized', () => {
  fc.assert(
    fc.property(objects, objects, (one, other) => {
      const [left, content] = [parsed(one), parsed(other)];
      const lost = parsed(lostFields(left, content));
      expect(isLostFields(lost)).toBe(true);
      expect(JSON.stringify(sorted(withLostFields(left, lost)))).toBe(JSON.stringify(sorted(content)));
    }),
  );
});

/** With members in one order, also `__proto__`. */
const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([name, member]) => [name, sorted(member)]));
};

test('compares each value once, however deep it is', () => {
  const deep = (end: string): JsonObject => {
    let value: JsonObject = { items: Array.from({ length: 20_000 }, (_, index) => ({ index })), z: end };
    for (let level = 0; level < 400; level += 1) value = { a: value };
    return value;
  };
  const [left, content] = [deep('left'), deep('content')];
  const startMs = performance.now();
  expect(lostFields(left, content)).toHaveLength(1);
  expect(performance.now() - startMs).toBeLessThan(1000);
});

test.each([
  [
    [
      { path: ['b'], is: 1 },
      { path: ['a'], is: 1 },
    ],
  ],
  [
    [
      { path: ['a'], is: 1 },
      { path: ['a'], is: 1 },
    ],
  ],
  [
    [
      { path: ['a'], is: 1 },
      { path: ['a', 'b'], is: 1 },
    ],
  ],
  [
    [
      {
        path: ['a'],
        items: [
          { index: 1, was: 1, is: 2 },
          { index: 0, was: 1, is: 2 },
        ],
      },
    ],
  ],
  [[{ path: [], is: 1 }]],
])('refuses fields that lostFields does not list: %j', (lost) => {
  expect(isLostFields(lost)).toBe(false);
});
