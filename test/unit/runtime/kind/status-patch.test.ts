import { describe, expect, test } from '@jest/globals';
import { statusPatch } from '../../../../packages/runtime/src/kind/status-patch.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';

interface Status {
  readonly phase?: string;
  readonly ready?: number;
  readonly hosts?: readonly string[];
  readonly nested?: { readonly a?: number; readonly b?: { readonly c?: number } };
}
const patch = (current: Status | undefined, desired: Parameters<typeof statusPatch<Status>>[1]) =>
  statusPatch<Status>(current, desired);

describe('the patch of a status', () => {
  test('contains only the differences', () => {
    expect(patch({ phase: 'Running', ready: 1 }, { phase: 'Done', ready: 1 })).toEqual({ phase: 'Done' });
  });

  test('contains all present members if there is no status yet', () => {
    expect(patch(undefined, { phase: 'Done', ready: null })).toEqual({ phase: 'Done' });
  });

  test('is undefined if nothing differs', () => {
    const status = () => ({ phase: 'Done', hosts: ['a', 'b'], nested: { b: { c: 1 } } });
    expect(patch(status(), status())).toBeUndefined();
    expect(patch(undefined, {})).toBeUndefined();
    expect(patch({}, { phase: null, ready: undefined })).toBeUndefined();
  });

  test('does not change members that are not desired', () => {
    expect(patch({ phase: 'Running', ready: 1 }, { phase: 'Running' })).toBeUndefined();
  });

  test.each([null, undefined])('removes a member that is desired as %s', (absent) => {
    expect(patch({ phase: 'Running', ready: 1 }, { phase: absent })).toEqual({ phase: null });
  });

  test('replaces lists', () => {
    expect(patch({ hosts: ['a', 'b'] }, { hosts: ['b'] })).toEqual({ hosts: ['b'] });
  });

  test('is undefined if items of a list differ only in null or undefined members', () => {
    type Rows = { rows?: readonly { a: number; b?: number | null | undefined }[] };
    const status: Rows = { rows: [{ a: 1 }] };
    for (const absent of [undefined, null]) {
      expect(statusPatch<Rows>(status, { rows: [{ a: 1, b: absent }] })).toBeUndefined();
      expect(statusPatch<Rows>(status, { rows: [{ a: 2, b: absent }] })).toEqual({ rows: [{ a: 2 }] });
      expect(statusPatch<Rows>(undefined, { rows: [{ a: 2, b: absent }] })).toEqual({ rows: [{ a: 2 }] });
    }
  });

  test('treats a negative zero as zero, and a number that is not finite as absent, as JSON does', () => {
    expect(patch({ ready: 0 }, { ready: -0 })).toBeUndefined();
    expect(patch({ nested: { a: 0 } }, { nested: { a: -0, b: { c: Number.NaN } } })).toEqual({ nested: { b: {} } });
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(patch({}, { ready: value })).toBeUndefined();
      expect(patch({ ready: 1 }, { ready: value })).toEqual({ ready: null });
    }
  });

  test('removes surplus members of an object', () => {
    expect(patch({ nested: { a: 1, b: { c: 1 } } }, { nested: { b: { c: 2 } } })).toEqual({
      nested: { a: null, b: { c: 2 } },
    });
  });
});

/** RFC 7386, in its own words. */
function merged(target: unknown, change: unknown): unknown {
  if (typeof change !== 'object' || change === null || Array.isArray(change)) return change;
  const result: Record<string, unknown> =
    typeof target === 'object' && target !== null && !Array.isArray(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(change)) {
    if (value === null) delete result[name];
    else result[name] = merged(result[name], value);
  }
  return result;
}

test('merging the patch into any status gives the desired status, and then the patch is undefined', () => {
  const leaf = fc.oneof(fc.integer({ max: 3, min: 0 }), fc.constantFrom('x', 'y'), fc.boolean());
  const name = fc.constantFrom('a', 'b', 'c');
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof({ maxDepth: 3 }, leaf, fc.array(leaf, { maxLength: 2 }), fc.dictionary(name, tie('value'))),
  }));
  const status = fc.dictionary(name, value);
  fc.assert(
    fc.property(status, status, (current, desired) => {
      const change = statusPatch<Record<string, unknown>>(current, desired);
      const after = change === undefined ? current : (merged(current, change) as Record<string, unknown>);
      expect(after).toEqual({ ...current, ...desired });
      expect(statusPatch(after, desired)).toBeUndefined();
    }),
  );
});
