import { describe, expect, test } from '@jest/globals';
import type { V1Pod } from '@kubernetes/client-node';
import {
  apiVersionOf,
  type BuiltIn,
  builtInKind,
  controllerOf,
  controllerReference,
  isControlledBy,
  keyOf,
  keyString,
  resourceName,
} from '../../../../src/runtime/kind/index.ts';
import { Planet, stored, Widget } from '../../../../testkit/widgets.ts';

const Pod = builtInKind<V1Pod>({ group: '', version: 'v1', kind: 'Pod', plural: 'pods' });

test('the core group has no name in an apiVersion and in a resource name', () => {
  expect([apiVersionOf(Pod), resourceName(Pod)]).toEqual(['v1', 'pods']);
  expect([apiVersionOf(Widget), resourceName(Widget)]).toEqual(['test.example/v1', 'widgets.test.example']);
});

test('a built-in kind is namespaced unless said otherwise', () => {
  expect([Pod.scope, Planet.scope]).toEqual(['Namespaced', 'Cluster']);
});

test('keys of namespaced and cluster-scoped objects', () => {
  expect(keyOf(stored('a', '1'))).toEqual({ name: 'a', namespace: 'default' });
  expect(keyString({ name: 'a', namespace: 'default' })).toBe('default/a');
  const { namespace: _, ...metadata } = stored('earth', '1').metadata;
  expect(keyOf({ metadata })).toEqual({ name: 'earth' });
  expect(keyString({ name: 'earth' })).toBe('earth');
});

test("a built-in kind's objects are as they are on the wire: dates are texts, and nothing can be changed", () => {
  const pod: BuiltIn<V1Pod> = {
    metadata: stored('a', '1').metadata,
    spec: { containers: [{ name: 'a' }] },
    status: { startTime: '2026-01-01T00:00:00Z' },
  };
  const startTime: string | undefined = pod.status?.startTime;
  expect(startTime).toBe('2026-01-01T00:00:00Z');
  // @ts-expect-error a date on the wire is a text
  const wrong: BuiltIn<V1Pod> = { ...pod, status: { startTime: new Date() } };
  expect(wrong).toBeDefined();
  // @ts-expect-error the store's objects are shared
  pod.spec?.containers.push({ name: 'b' });
});

describe('the controller of an object', () => {
  const owner = stored('owner', '1');
  const reference = controllerReference(Widget, owner);
  const other = { apiVersion: 'v1', kind: 'ConfigMap', name: 'other', uid: 'uid-other' };

  test('is referred to by what the garbage collector needs', () => {
    expect(reference).toEqual({
      apiVersion: 'test.example/v1',
      kind: 'Widget',
      name: 'owner',
      uid: 'uid-owner',
      controller: true,
      blockOwnerDeletion: true,
    });
  });

  test('is the one owner that says so', () => {
    const child = stored('child', '2', { ownerReferences: [other, reference] });
    expect(controllerOf(child)).toBe(reference);
    expect(isControlledBy(child, owner)).toBe(true);
  });

  test('is nobody where no owner says so', () => {
    expect(controllerOf(stored('child', '2'))).toBeUndefined();
    expect(controllerOf(stored('child', '2', { ownerReferences: [other] }))).toBeUndefined();
    expect(isControlledBy(stored('child', '2'), owner)).toBe(false);
    const owned = { ...reference, controller: false };
    expect(isControlledBy(stored('child', '2', { ownerReferences: [owned] }), owner)).toBe(false);
  });

  test('is not one that was made again under the same name', () => {
    const child = stored('child', '2', { ownerReferences: [reference] });
    expect(isControlledBy(child, stored('owner', '3', { uid: 'uid-another' }))).toBe(false);
  });
});
