import { missingField } from '@echoperator/runtime/controller';
import { describe, expect, test } from '@jest/globals';
import {
  appServiceKey,
  databaseServiceKey,
  deploymentKey,
  durationMs,
  podSpecOf,
  specWithDefaultsOf,
  statefulSetKey,
} from '../../../../src/kinds/book-store/desired.ts';
import { BookStore } from '../../../../src/kinds/book-store/kind.ts';
import { bookStoreDefaults } from '../../../../testkit/pod-settings.ts';
import { bookStore } from './objects.ts';

describe('a field that is absent', () => {
  test('has its default', () => {
    expect(specWithDefaultsOf(bookStore())).toEqual({
      app: {
        container: { image: 'app:latest', imagePullPolicy: 'IfNotPresent' },
        replicas: undefined,
        port: 80,
        targetPort: 80,
        serviceType: 'ClusterIP',
        serviceName: 'bookstore-svc',
      },
      database: {
        container: { image: 'db:latest', imagePullPolicy: 'IfNotPresent' },
        replicas: 1,
        port: 27_017,
        size: '1Gi',
        serviceName: 'mongodb-service',
        storageClassName: undefined,
        dataPath: '/data/db',
        resizeRestartAfterMs: 300_000,
      },
    });
  });

  test('is not confused with zero', () => {
    const { app, database } = specWithDefaultsOf(bookStore({ bookApp: { replicas: 0 }, bookDB: { replicas: 0 } }));
    expect([app.replicas, database.replicas]).toEqual([0, 0]);
  });

  test('does not override fields that are set', () => {
    const resources = { requests: { cpu: 1 }, limits: { memory: '1Gi' } };
    const { app, database } = specWithDefaultsOf(
      bookStore({ bookApp: { port: 8080, targetPort: 3000, resources }, bookDB: { dbSize: 1024 } }),
    );
    expect(app).toMatchObject({ port: 8080, targetPort: 3000 });
    expect(app.container.resources).toEqual({ requests: { cpu: '1' }, limits: { memory: '1Gi' } });
    expect(database.size).toBe('1024');
  });
});

describe('the security contexts', () => {
  const specOf = (contexts: object) => {
    const { database } = specWithDefaultsOf(bookStore({ bookDB: contexts }));
    return podSpecOf(database, bookStoreDefaults, { name: 'database' });
  };

  test('fit the Pod Security Standard restricted by default, and own the files of the official database images', () => {
    const spec = specOf({});
    expect(spec.securityContext).toEqual({
      runAsNonRoot: true,
      runAsUser: 999,
      runAsGroup: 999,
      fsGroup: 999,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    });
    expect(spec.containers[0]?.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
    });
  });

  test('of the spec replace the default, and empty ones remove it', () => {
    const changed = specOf({ podSecurityContext: { fsGroup: 5 }, securityContext: { runAsUser: 5 } });
    expect(changed.securityContext).toEqual({ fsGroup: 5 });
    expect(changed.containers[0]?.securityContext).toEqual({ runAsUser: 5 });
    const removed = specOf({ podSecurityContext: {}, securityContext: {} });
    expect(removed.securityContext).toEqual({});
    expect(removed.containers[0]?.securityContext).toEqual({});
  });
});

describe('a spec that was stored without a schema', () => {
  const store = (spec: object | undefined) => ({ ...bookStore(), spec }) as unknown as BookStore;

  test.each([
    [undefined, 'spec.bookApp.repository'],
    [{ bookApp: { repository: 'app' } }, 'spec.bookDB.repository'],
    [{ bookApp: { repository: 'app' }, bookDB: { repository: 'db' } }, 'spec.bookDB.dbSize'],
  ])('%j lacks a required field', (spec, missing) => {
    expect(missingField(BookStore, store(spec))).toBe(missing);
  });

  test('may be complete', () => {
    expect(missingField(BookStore, bookStore())).toBeUndefined();
    expect([appServiceKey(bookStore()).name, databaseServiceKey(bookStore()).name]).toEqual([
      'bookstore-svc',
      'mongodb-service',
    ]);
  });
});

describe('names', () => {
  test('are the name of the BookStore and a suffix', () => {
    expect([deploymentKey(bookStore()).name, statefulSetKey(bookStore()).name]).toEqual(['shop-app', 'shop-db']);
  });

  test.each(['x'.repeat(253), `a.${'b'.repeat(60)}`, 'a.b', 'x'.repeat(50)])('of %s are valid', (name) => {
    const store = bookStore({}, name);
    for (const [key, length] of [[deploymentKey(store), 63] as const, [statefulSetKey(store), 52] as const]) {
      expect(key.name).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/);
      expect(key.name.length).toBeLessThanOrEqual(length);
    }
  });

  test('with a dot and with a hyphen differ', () => {
    expect(statefulSetKey(bookStore({}, 'a.b')).name).not.toBe(statefulSetKey(bookStore({}, 'a-b')).name);
  });
});

describe('durations', () => {
  test.each([
    ['5m', 300_000],
    ['90s', 90_000],
    ['1h30m', 5_400_000],
    ['1.5s', 1500],
    ['250ms', 250],
    ['0s', 0],
  ])('%s is %d ms', (text, expected) => {
    expect(durationMs(text)).toBe(expected);
  });

  test.each(['', '5', 'm', '5 m', '5m!', '-5m', '1d'])('%j is not a duration', (text) => {
    expect(() => durationMs(text)).toThrow(RangeError);
  });
});
