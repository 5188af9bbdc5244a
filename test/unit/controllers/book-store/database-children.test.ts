import { describe, expect, test } from '@jest/globals';
import {
  type Fixed,
  fixedOf,
  isFixedOtherwise,
  statefulSetOf,
  wantedFixed,
} from '../../../../src/controllers/book-store/database-children.ts';
import { claimedNames, deploymentKey, statefulSetKey } from '../../../../src/controllers/book-store/names.ts';
import { settingsOf } from '../../../../src/controllers/book-store/settings.ts';
import type { StatefulSet } from '../../../../src/controllers/built-in-kinds.ts';
import { bookStore } from './objects.ts';

const present: Fixed = { size: '2Gi', storageClassName: 'fast', serviceName: 'mongodb-service' };
const wanted = (bookDB: object) => wantedFixed(settingsOf(bookStore({ bookDB })), present);

describe('what a StatefulSet is made with', () => {
  test('is what the BookStore asks for, where there is none', () => {
    const settings = settingsOf(bookStore({ bookDB: { storageClassName: 'slow' } }));
    expect(wantedFixed(settings, undefined)).toEqual({ ...present, size: '1Gi', storageClassName: 'slow' });
  });

  test('grows, and never shrinks', () => {
    expect(wanted({ dbSize: '3Gi' }).size).toBe('3Gi');
    expect(wanted({ dbSize: '1Gi' }).size).toBe('2Gi');
    expect(isFixedOtherwise(wanted({ dbSize: '3Gi' }), present)).toBe(true);
    expect(isFixedOtherwise(wanted({ dbSize: '1Gi' }), present)).toBe(false);
  });

  test.each(['2048Mi', 2 ** 31, '2147483648'])('%j is the same in other words', (dbSize) => {
    expect(isFixedOtherwise(wanted({ dbSize }), present)).toBe(false);
  });

  test('is otherwise with another Service, and keeps its class', () => {
    const other = wanted({ dbSize: '2Gi', serviceName: 'else' });
    expect(isFixedOtherwise(other, present)).toBe(true);
    expect(other.storageClassName).toBe('fast');
  });

  test('comes with what others have made of the claims’ template, but for the server’s defaults', () => {
    const store = bookStore();
    const settings = settingsOf(store);
    const made = statefulSetOf(store, settings, wantedFixed(settings, undefined)) as StatefulSet;
    const [claim] = made.spec?.volumeClaimTemplates ?? [];
    const asStored = (metadata: object, spec: object) => {
      const template = { ...claim, metadata: { ...claim?.metadata, ...metadata }, spec: { ...claim?.spec, ...spec } };
      return { ...made, spec: { ...made.spec, volumeClaimTemplates: [template] } } as StatefulSet;
    };
    const again = (stored: StatefulSet) => statefulSetOf(store, settings, fixedOf(stored));
    expect(again(asStored({}, { volumeMode: 'Filesystem' }))).toEqual(made);
    const others = [{ labels: { team: 'a' } }, { volumeAttributesClassName: 'gold', volumeMode: 'Block' }] as const;
    expect(again(asStored(...others)).spec?.volumeClaimTemplates).toEqual(
      asStored(...others).spec?.volumeClaimTemplates,
    );
  });

  test('comes with each later apply as it is, for it cannot be changed', () => {
    const store = bookStore({ bookDB: { dbSize: '3Gi', serviceName: 'else' } });
    const { spec } = statefulSetOf(store, settingsOf(store), present);
    expect(spec?.serviceName).toBe('mongodb-service');
    expect(spec?.volumeClaimTemplates?.[0]?.spec).toMatchObject({
      storageClassName: 'fast',
      resources: { requests: { storage: '2Gi' } },
    });
  });
});

describe('names', () => {
  test('are the BookStore’s own with a word behind', () => {
    expect([deploymentKey(bookStore()).name, statefulSetKey(bookStore()).name]).toEqual(['shop-app', 'shop-db']);
  });

  test.each(['x'.repeat(253), `a.${'b'.repeat(60)}`, 'a.b', 'x'.repeat(50)])('of %s hold', (name) => {
    const store = bookStore({}, name);
    for (const [key, length] of [[deploymentKey(store), 63] as const, [statefulSetKey(store), 52] as const]) {
      expect(key.name).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/);
      expect(key.name.length).toBeLessThanOrEqual(length);
    }
  });

  test('with a dot and with a dash are two', () => {
    expect(statefulSetKey(bookStore({}, 'a.b')).name).not.toBe(statefulSetKey(bookStore({}, 'a-b')).name);
  });

  test('that are claimed are all that a BookStore makes', () => {
    expect(claimedNames(bookStore({ bookApp: { serviceName: 'web' } }))).toEqual([
      'deployments/default/shop-app',
      'statefulsets/default/shop-db',
      'services/default/web',
      'services/default/mongodb-service',
      'controllerrevisions/default/shop-db-recreation',
    ]);
  });
});
