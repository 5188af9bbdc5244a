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

test('another order of named items is a change: the kubelet expands variables in their order', () => {
  const listOf = (...names: string[]) => ({ spec: { env: names.map((name) => ({ name, value: 'x' })) } });
  expect(changes(listOf('A', 'B', 'C'), listOf('B', 'A', 'C'))).toEqual([
    { path: 'spec.env', before: ['A', 'B', 'C'], after: ['B', 'A', 'C'] },
  ]);
  expect(changes(listOf('A', 'B'), listOf('C', 'B'))).toHaveLength(2);
});

test('an empty list and an empty object differ', () => {
  expect(changes({ spec: { a: [] } }, { spec: { a: {} } })).toEqual([{ path: 'spec.a', before: [], after: {} }]);
  expect(changes({ spec: { a: null } }, { spec: { a: {} } })).toEqual([{ path: 'spec.a', before: null, after: {} }]);
});

test('a value that is nested as deep as the API server allows is compared and can be printed', () => {
  const deep = (leaf: number) => {
    let value: unknown = leaf;
    for (let depth = 0; depth < 9990; depth += 1) value = { a: value, note: `level ${depth}` };
    return { spec: value };
  };
  expect(changes(deep(1), deep(1))).toEqual([]);
  const [change, ...others] = changes(deep(1), deep(2));
  expect(others).toEqual([]);
  expect(change?.path).toMatch(/^spec(\.a)+$/);
  expect(JSON.stringify(changes({}, deep(2)))).toContain('nested too deeply');
});
