import {
  Applier,
  type Client,
  findCondition,
  type Kind,
  type KubeObject,
  keyOf,
  type Manifest,
  type Result,
} from '@echoperator/runtime';
import { ApiError } from '@echoperator/runtime/client';
import type { EventNotice } from '@echoperator/runtime/controller';
import { Deployment, type PersistentVolumeClaim, type Pod } from '@echoperator/runtime/kinds';
import { beforeEach, expect, test } from '@jest/globals';
import { Store } from '../../../../packages/runtime/src/cache/store.ts';
import { reconcilerOf } from '../../../../packages/runtime/src/controller/define-controller.ts';
import { bookStoreController } from '../../../../src/kinds/book-store/controller.ts';
import type { BookStore } from '../../../../src/kinds/book-store/kind.ts';
import { bookStoreDefaults } from '../../../../testkit/pod-settings.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { bookStore } from './objects.ts';

let current: BookStore;
let appPods: readonly Pod[] = [];
let stores: Readonly<Record<string, Store<KubeObject>>>;
let notes: string[];
/** Whether the API server has the BookStore. */
let exists: boolean;
/** The kind of child that the API server refuses. */
let refused: string | undefined;

const client = {
  get: async () => {
    if (!exists) throw new ApiError('GET /x', 404, { reason: 'NotFound', message: 'not found' });
    return current;
  },
  apply: async (kind: Kind, manifest: Manifest<KubeObject>) => {
    if (kind.kind === refused) throw new ApiError('PATCH /x', 403, { reason: 'Forbidden', message: 'exceeded quota' });
    const { name } = manifest.metadata;
    const server = { uid: `uid-of-${name}`, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
    const stored = { ...manifest, metadata: { ...manifest.metadata, ...server, generation: 1 } };
    stores[kind.kind]?.set(stored);
    return stored;
  },
  list: async () => ({ items: [], metadata: { resourceVersion: '1' } }),
  mergeStatus: async (_: Kind, __: object, { conditions }: Pick<NonNullable<BookStore['status']>, 'conditions'>) => {
    current = { ...current, ...(conditions && { status: { conditions } }) };
    return current;
  },
} as unknown as Client;

async function reconcile(): Promise<Result> {
  notes = [];
  const bookStores = new Store<BookStore>();
  bookStores.set(current);
  const pods = new Store<Pod>();
  pods.replace(appPods);
  pods.addIndex('podsByLabels', () => ['default/bookstore/shop/app']);
  const all: Readonly<Record<string, unknown>> = { ...stores, BookStore: bookStores, Pod: pods };
  const claims = new Store<PersistentVolumeClaim>();
  claims.addIndex('claimsByStatefulSet', () => []);
  const reconciler = reconcilerOf(bookStoreController(bookStoreDefaults), {
    store: <C extends KubeObject>({ kind }: Kind<C>) => (all[kind] ?? claims) as Store<C>,
    indexName: (index) => index,
    applier: new Applier({ fieldManager: 'tester' }),
    events: {
      record: (_: Kind, __: KubeObject, { reason, note }: EventNotice) => void notes.push(`${reason}: ${note}`),
    },
    gate: { pass: () => {}, signal: new AbortController().signal },
    log: new RecordingLog(),
    state: () => undefined,
  });
  const context = { client, signal: new AbortController().signal, log: new RecordingLog() };
  const result = await reconciler.reconcile(keyOf(current), context);
  notes = notes.filter((note) => /(Created|Recreated|Changed):/.test(note));
  return result;
}

beforeEach(() => {
  current = bookStore();
  stores = { Deployment: new Store(), StatefulSet: new Store(), Service: new Store() };
  appPods = [];
  refused = undefined;
  exists = true;
});

// The garbage collector deletes such children, but not the claims that the StatefulSet's controller has made for them.
test('a BookStore that the cache shows after its deletion gets no children', async () => {
  await reconcile();
  exists = false;
  stores = { Deployment: new Store(), StatefulSet: new Store(), Service: new Store() };
  expect(await reconcile()).toEqual({ type: 'done' });
  expect(notes).toEqual([]);
});

test('nor does it after a refusal, which the status still says', async () => {
  refused = Deployment.kind;
  await reconcile();
  expect(findCondition(current.status?.conditions, 'Ready')).toMatchObject({ reason: 'Refused' });
  exists = false;
  stores = { Deployment: new Store(), StatefulSet: new Store(), Service: new Store() };
  expect(await reconcile()).toEqual({ type: 'done' });
  expect(notes).toEqual([]);
});

test('a pod that terminates is looked at again when it is overdue: no event tells that', async () => {
  expect(await reconcile()).toEqual({ type: 'done' });
  appPods = [{ metadata: { ...current.metadata, deletionTimestamp: new Date().toISOString() } }];
  expect(await reconcile()).toEqual({ type: 'requeueAfter', delayMs: expect.any(Number) });
});

test('each child that is created is an Event', async () => {
  await reconcile();
  expect(notes).toEqual([
    'ServiceCreated: created Service mongodb-service',
    'StatefulSetCreated: created StatefulSet shop-db',
    'DeploymentCreated: created Deployment shop-app',
    'ServiceCreated: created Service bookstore-svc',
  ]);
});

test('a deleted child that is created again is an Event, also while the BookStore is not ready', async () => {
  await reconcile();
  expect(findCondition(current.status?.conditions, 'Ready')).toMatchObject({ status: 'False' });
  stores = { ...stores, Deployment: new Store() };
  await reconcile();
  expect(notes).toEqual(['DeploymentRecreated: created Deployment shop-app, which was missing']);
});

test('a child that is created when the API server no longer refuses it was not deleted', async () => {
  refused = Deployment.kind;
  await reconcile();
  expect(findCondition(current.status?.conditions, 'Ready')).toMatchObject({ reason: 'Refused' });
  refused = undefined;
  await reconcile();
  expect(notes).toContain('DeploymentCreated: created Deployment shop-app');
});
