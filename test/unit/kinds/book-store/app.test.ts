import type { Kind, KubeObject } from '@echoperator/runtime';
import { ApiError } from '@echoperator/runtime/client';
import { type Deployment, type Pod, Service } from '@echoperator/runtime/kinds';
import { expect, test } from '@jest/globals';
import { type AppOptions, earlierServices, reconcileApp } from '../../../../src/kinds/book-store/app.ts';
import { specWithDefaultsOf } from '../../../../src/kinds/book-store/desired.ts';
import { bookStoreDefaults } from '../../../../testkit/pod-settings.ts';
import { bookStore } from './objects.ts';

const store = bookStore({ bookApp: { serviceName: 'app' }, bookDB: { serviceName: 'db' } });
const owner = { kind: 'BookStore', name: 'shop', uid: store.metadata.uid, controller: true };
const service = (name: string, clusterIP: string, metadata: object = {}) =>
  ({ metadata: { name, ownerReferences: [owner], ...metadata }, spec: { clusterIP } }) as unknown as Service;

const namesOf = (found: readonly Service[]) => found.map(({ metadata }) => metadata.name);
const earlierNames = (...services: readonly Service[]) => namesOf(earlierServices(services, specWithDefaultsOf(store)));

test('a Service whose name the spec no longer has is an earlier Service', () => {
  const services = [service('app', '10.0.0.1'), service('db', 'None'), service('old', 'None')];
  expect(earlierNames(...services)).toEqual(['old']);
});

test('a Service that is being deleted is not an earlier Service', () => {
  const leaving = service('old', 'None', { deletionTimestamp: '2026-01-02T03:04:05Z' });
  expect(earlierNames(leaving)).toEqual([]);
});

const serving = { observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1 };

/** Reconciles an app whose Deployment has this status. */
function reconcile(
  status: object,
  more: { readonly delete?: () => Promise<void>; readonly pods?: readonly Pod[] } = {},
) {
  const deployment = { metadata: { name: 'shop-app', generation: 1 }, status } as unknown as Deployment;
  const old = service('old', '10.0.0.1', { uid: 'uid-of-old', resourceVersion: '7' });
  const deletions: unknown[] = [];
  const options = {
    pods: more.pods ?? [],
    podDefaults: bookStoreDefaults,
    context: {
      owned: (kind: Kind) => (kind.kind === Service.kind ? [old] : []),
      tryApply: async (kind: Kind) => ({
        type: 'unchanged',
        object: kind.kind === Service.kind ? service('app', '10.0.0.2') : deployment,
      }),
      delete: async (kind: Kind, { metadata }: KubeObject, preconditions: object) => {
        deletions.push([kind.kind, metadata.name, preconditions]);
        await more.delete?.();
      },
    },
  } as unknown as AppOptions;
  return { deletions, result: reconcileApp(store, specWithDefaultsOf(store), undefined, options) };
}

test('an earlier Service is deleted with a precondition on its version', async () => {
  const { deletions, result } = reconcile(serving);
  expect((await result).app.reason).toBe('AppServing');
  expect(deletions).toEqual([['Service', 'old', { resourceVersion: '7' }]]);

  const conflict = new ApiError('DELETE /x', 409, { reason: 'Conflict' });
  await expect(reconcile(serving, { delete: () => Promise.reject(conflict) }).result).rejects.toBe(conflict);
});

test('the message quotes the Deployment when the API server refuses its ReplicaSet', async () => {
  const message = 'Failed to create new replica set "shop-app-1": exceeded quota: q';
  const conditions = [{ type: 'Progressing', status: 'False', reason: 'ReplicaSetCreateError', message }];
  const { app } = await reconcile({ observedGeneration: 1, conditions }).result;
  expect(app.message).toBe(`0 of 1 pods of Deployment shop-app are ready: ${message}`);
});

test('the message quotes the Deployment when the API server refuses its pods', async () => {
  const message = 'pods "shop-app-1" is forbidden: exceeded quota: q';
  const conditions = [{ type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate', message }];
  const { app } = await reconcile({ observedGeneration: 1, conditions }).result;
  expect(app).toEqual({ reason: 'AppUpdating', message: `0 of 1 pods of Deployment shop-app are ready: ${message}` });

  const waiting = { ready: false, state: { waiting: { reason: 'ImagePullBackOff', message: 'no such image' } } };
  const pod = { metadata: { name: 'shop-app-0' }, status: { containerStatuses: [waiting] } } as unknown as Pod;
  const troubled = await reconcile({ observedGeneration: 1, conditions }, { pods: [pod] }).result;
  expect(troubled.app.message).toContain('pod shop-app-0: ImagePullBackOff');
  const over = [{ type: 'ReplicaFailure', status: 'False', message }];
  const starting = await reconcile({ observedGeneration: 1, conditions: over }).result;
  expect(starting.app.message).toBe(
    '0 of 1 pods of Deployment shop-app are ready: 0 have the current template (kubectl --namespace default describe deployment shop-app)',
  );
});
