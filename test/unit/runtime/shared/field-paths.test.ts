import { describe, expect, test } from '@jest/globals';
import { changedPaths, differOnlyInStatus, patchedPaths } from '../../../../packages/runtime/src/shared/field-paths.ts';
import { stored } from '../../../../testkit/widgets.ts';

const shared = [1];

describe('the paths of a change', () => {
  test.each<[string, object, object, readonly string[]]>([
    ['nothing', { spec: { a: 1, list: shared } }, { spec: { a: 1, list: shared } }, []],
    ['a value', { spec: { size: 2 } }, { spec: { size: 1 } }, ['spec.size']],
    ['an added and a removed field', { spec: { a: { b: 1 } } }, { spec: { c: 1 } }, ['spec.a.b', 'spec.c']],
    ['an added empty map', { spec: { emptyDir: {} } }, { spec: {} }, ['spec.emptyDir']],
    ['a value that becomes an empty map', { spec: { a: {} } }, { spec: { a: 1 } }, ['spec.a']],
    ['an emptied map', { spec: { a: {} } }, { spec: { a: { b: 1 } } }, ['spec.a.b']],
    ['a list', { spec: { list: [1, 2] } }, { spec: { list: [1] } }, ['spec.list']],
    ['a label', { metadata: { labels: { 'a.b/c': 'x' } } }, { metadata: {} }, ['metadata.labels[a.b/c]']],
    ['a key that is a sentence', { data: { 'a secret': 1 } }, {}, ['data[…]']],
    ['what is too deep', { a: { b: { c: { d: { e: { f: 1 } } } } } }, {}, ['a.b.c.d.e']],
    ['too many', { a: 1, b: 1, c: 1, d: 1, e: 1, f: 1 }, {}, ['a', 'b', 'c', 'd', '…']],
    [
      'the metadata of each write',
      { metadata: { resourceVersion: '2', generation: 2 } },
      { metadata: { resourceVersion: '1', generation: 1 } },
      [],
    ],
  ])('%s', (_, object, previous, paths) => {
    expect(changedPaths(object, previous)).toEqual(paths);
  });
});

test.each([
  ['differ only in their status', { status: {} }, {}, true],
  ['do not differ', {}, {}, true],
  ['differ in their labels', { status: {} }, { labels: { app: 'a' } }, false],
  ['differ in their spec', { spec: {} }, {}, false],
])('two versions %s', (_, top, ofMetadata, isOnlyStatus) => {
  const before = { ...stored('a', '1', { generation: 1 }), spec: shared };
  const after = {
    ...before,
    ...top,
    metadata: { ...before.metadata, resourceVersion: '2', generation: 2, ...ofMetadata },
  };
  expect([differOnlyInStatus(after, before), differOnlyInStatus(before, after)]).toEqual([isOnlyStatus, isOnlyStatus]);
  expect([...changedPaths(after, before)].every((path) => path.startsWith('status'))).toBe(isOnlyStatus);
});

describe('the paths of a patch', () => {
  test('a merge patch', () => {
    const patch = { metadata: { resourceVersion: '1' }, status: { conditions: [], phase: null } };
    expect(patchedPaths(patch)).toEqual(['status.conditions', 'status.phase']);
  });

  test('a JSON patch, without its preconditions', () => {
    const patch = [
      { op: 'test', path: '/metadata/uid', value: 'x' },
      { op: 'add', path: '/metadata/resourceVersion', value: '1' },
      { op: 'add', path: '/metadata/annotations/a.b~1c', value: 'x' },
      { op: 'remove', path: '/metadata/finalizers/0' },
    ];
    expect(patchedPaths(patch)).toEqual(['metadata.annotations[a.b/c]', 'metadata.finalizers.0']);
  });
});
