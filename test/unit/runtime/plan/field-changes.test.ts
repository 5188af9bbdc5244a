import { expect, test } from '@jest/globals';
import { fieldChanges } from '../../../../packages/runtime/src/plan/field-changes.ts';

const changes = (before: object, after: object) => fieldChanges(before, after, { hasValues: true });

test('names each changed field with both values, and items of a list by name', () => {
  const before = { spec: { replicas: 1, containers: [{ name: 'a', image: 'x:1' }], old: true } };
  const after = { spec: { replicas: 2, containers: [{ name: 'b' }, { name: 'a', image: 'x:2' }], new: { deep: 1 } } };
  expect(changes(before, after)).toEqual([
    { path: 'spec.replicas', before: 1, after: 2 },
    { path: 'spec.containers[a].image', before: 'x:1', after: 'x:2' },
    { path: 'spec.containers[b]', after: { name: 'b' } },
    { path: 'spec.old', before: true },
    { path: 'spec.new', after: { deep: 1 } },
  ]);
});

test('names items without names by index, and unusual keys in brackets', () => {
  const before = { list: [1, 2], metadata: { annotations: { 'example.com/a': 'x' } } };
  const after = { list: [1, 3, 4], metadata: { annotations: { 'example.com/a': 'y' } } };
  expect(changes(before, after).map(({ path }) => path)).toEqual([
    'list[1]',
    'list[2]',
    'metadata.annotations[example.com/a]',
  ]);
});

test('ignores what the server sets, and reports a change of nothing but field owners', () => {
  const objectOf = (version: string, manager: string, time: string) => ({
    metadata: { resourceVersion: version, generation: 1, managedFields: [{ manager, time }] },
  });
  expect(changes(objectOf('1', 'a', 'then'), objectOf('2', 'a', 'now'))).toEqual([]);
  expect(changes(objectOf('1', 'a', 'then'), objectOf('2', 'b', 'now'))).toEqual([{ path: 'metadata.managedFields' }]);
});

test('without values there are only paths', () => {
  const secrets = fieldChanges({ data: { password: 'b25l' } }, { data: { password: 'dHdv' } }, { hasValues: false });
  expect(secrets).toEqual([{ path: 'data.password' }]);
});
