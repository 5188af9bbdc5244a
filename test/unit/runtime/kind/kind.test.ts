import { builtInKind, controllerOf, controllerReference, isControlledBy, keyOf, keyString } from '@echoperator/runtime';
import { type BuiltIn, resourceName } from '@echoperator/runtime/client';
import { Pod } from '@echoperator/runtime/kinds';
import { describe, expect, test } from '@jest/globals';
import type { V1Pod } from '@kubernetes/client-node';
import { apiVersionOf } from '../../../../packages/runtime/src/kind/kind.ts';
import { Planet, stored, Widget } from '../../../../testkit/widgets.ts';

test('apiVersion and resource name omit the core group', () => {
  expect([apiVersionOf(Pod), resourceName(Pod)]).toEqual(['v1', 'pods']);
  expect([apiVersionOf(Widget), resourceName(Widget)]).toEqual(['test.example/v1', 'widgets.test.example']);
});

test('a built-in kind is namespaced by default', () => {
  const note = { group: 'example.com', version: 'v1', kind: 'Note', plural: 'notes' };
  expect([builtInKind(note).scope, Planet.scope]).toEqual(['Namespaced', 'Cluster']);
});

test('namespaced and cluster-scoped objects have keys', () => {
  expect(keyOf(stored('a', '1'))).toEqual({ name: 'a', namespace: 'default' });
  expect(keyString({ name: 'a', namespace: 'default' })).toBe('default/a');
  const { namespace: _, ...metadata } = stored('earth', '1').metadata;
  expect(keyOf({ metadata })).toEqual({ name: 'earth' });
  expect(keyString({ name: 'earth' })).toBe('earth');
});

test('the types of built-in kinds have strings for dates and are readonly', () => {
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

  test('has a reference with the fields that the garbage collector needs', () => {
    expect(reference).toEqual({
      apiVersion: 'test.example/v1',
      kind: 'Widget',
      name: 'owner',
      uid: 'uid-owner',
      controller: true,
      blockOwnerDeletion: true,
    });
  });

  test('is not an object that says that it is of another kind', () => {
    const widget = { ...owner, apiVersion: 'test.example/v1alpha1', kind: 'Widget' };
    expect(controllerReference(Widget, widget)).toEqual(reference);
    expect(() => controllerReference(Widget, { ...widget, kind: 'Gadget' })).toThrow(
      new RangeError('the owner owner is not a Widget of test.example/v1: it is a Gadget of test.example/v1alpha1'),
    );
    expect(() => controllerReference(Widget, { ...widget, apiVersion: 'v1' })).toThrow(RangeError);
  });

  test('is the owner with controller: true', () => {
    const child = stored('child', '2', { ownerReferences: [other, reference] });
    expect(controllerOf(child)).toBe(reference);
    expect(isControlledBy(child, owner)).toBe(true);
  });

  test('is undefined if no owner has controller: true', () => {
    expect(controllerOf(stored('child', '2'))).toBeUndefined();
    expect(controllerOf(stored('child', '2', { ownerReferences: [other] }))).toBeUndefined();
    expect(isControlledBy(stored('child', '2'), owner)).toBe(false);
    const owned = { ...reference, controller: false };
    expect(isControlledBy(stored('child', '2', { ownerReferences: [owned] }), owner)).toBe(false);
  });

  test('is not a recreated object with the same name', () => {
    const child = stored('child', '2', { ownerReferences: [reference] });
    expect(isControlledBy(child, stored('owner', '3', { uid: 'uid-another' }))).toBe(false);
  });
});
