import type { Kind, ObjectKey } from '@echoperator/runtime';
import { Pod } from '@echoperator/runtime/kinds';
import { describe, expect, test } from '@jest/globals';
import { collectionPath, objectPath } from '../../../../packages/runtime/src/client/resource-path.ts';
import { Planet, Widget } from '../../../../testkit/widgets.ts';

describe('paths', () => {
  test.each([
    [Pod, undefined, '/api/v1/pods'],
    [Pod, 'default', '/api/v1/namespaces/default/pods'],
    [Widget, undefined, '/apis/test.example/v1/widgets'],
    [Widget, 'default', '/apis/test.example/v1/namespaces/default/widgets'],
    [Planet, undefined, '/apis/test.example/v1/planets'],
  ])('of a collection', (kind, namespace, path) => {
    expect(collectionPath(kind, namespace)).toBe(path);
  });

  test('of an object', () => {
    expect(objectPath(Pod, { name: 'a', namespace: 'default' })).toBe('/api/v1/namespaces/default/pods/a');
    expect(objectPath(Planet, { name: 'earth' })).toBe('/apis/test.example/v1/planets/earth');
  });

  test('names are escaped', () => {
    expect(objectPath(Pod, { name: 'a/../b?c#d', namespace: 'x/y' })).toBe(
      '/api/v1/namespaces/x%2Fy/pods/a%2F..%2Fb%3Fc%23d',
    );
  });
});

describe('refuses an invalid key, with its value', () => {
  test.each<[string, Kind, ObjectKey, RegExp]>([
    ['an empty name', Widget, { name: '', namespace: 'default' }, /widgets\.test\.example: the name "" is invalid/],
    ['an empty name of a cluster-scoped kind', Planet, { name: '' }, /planets\.test\.example: the name "" is invalid/],
    ['the name "."', Widget, { name: '.', namespace: 'default' }, /widgets\.test\.example: the name "\." is invalid/],
    [
      'the name ".."',
      Widget,
      { name: '..', namespace: 'default' },
      /widgets\.test\.example: the name "\.\." is invalid/,
    ],
    [
      'the namespace ".."',
      Widget,
      { name: 'a', namespace: '..' },
      /widgets\.test\.example a: the namespace "\.\." is invalid/,
    ],
    ['no namespace', Widget, { name: 'a' }, /widgets\.test\.example a is namespaced: set metadata\.namespace/],
    ['an empty namespace', Widget, { name: 'a', namespace: '' }, /widgets\.test\.example a is namespaced/],
    [
      'a namespace for a cluster-scoped kind',
      Planet,
      { name: 'a', namespace: 'b' },
      /planets\.test\.example a is cluster-scoped: remove metadata\.namespace, which is "b"/,
    ],
  ])('%s', (_, kind, key, message) => {
    expect(() => objectPath(kind, key)).toThrow(TypeError);
    expect(() => objectPath(kind, key)).toThrow(message);
  });
});
