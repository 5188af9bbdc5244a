import { describe, expect, test } from '@jest/globals';
import type { BookStore } from '../../../../src/api/index.ts';
import { settingsOf } from '../../../../src/controllers/book-store/settings.ts';
import { problemOf } from '../../../../src/controllers/book-store/spec-problem.ts';
import { bookStore } from './objects.ts';

describe('what a BookStore leaves out', () => {
  test('has its defaults', () => {
    expect(settingsOf(bookStore())).toEqual({
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
        reclaimPolicy: 'Retain',
        resizeRestartAfterMs: 300_000,
      },
    });
  });

  test('is not what is zero', () => {
    const { app, database } = settingsOf(bookStore({ bookApp: { replicas: 0 }, bookDB: { replicas: 0 } }));
    expect([app.replicas, database.replicas]).toEqual([0, 0]);
  });

  test('is not what is there: the app listens elsewhere than its Service, sizes are numbers', () => {
    const resources = { requests: { cpu: 1 }, limits: { memory: '1Gi' } };
    const { app, database } = settingsOf(
      bookStore({ bookApp: { port: 8080, targetPort: 3000, resources }, bookDB: { dbSize: 1024 } }),
    );
    expect(app).toMatchObject({ port: 8080, targetPort: 3000 });
    expect(app.container.resources).toEqual({ requests: { cpu: '1' }, limits: { memory: '1Gi' } });
    expect(database.size).toBe('1024');
  });
});

describe('a spec from before the kind had a schema', () => {
  const store = (spec: object | undefined) => ({ ...bookStore(), spec }) as unknown as BookStore;

  test.each([
    [undefined, 'the spec lacks bookApp.repository, bookDB.repository, bookDB.dbSize'],
    [{ bookApp: { repository: 'app' } }, 'the spec lacks bookDB.repository, bookDB.dbSize'],
    [{ bookApp: { repository: '' }, bookDB: { repository: 'db', dbSize: 0 } }, 'the spec lacks bookApp.repository'],
  ])('%j may lack what is needed', (spec, problem) => {
    expect(problemOf(store(spec))).toBe(problem);
  });

  test('may be whole', () => {
    expect(problemOf(bookStore())).toBeUndefined();
  });
});
