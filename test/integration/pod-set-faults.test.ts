import type { ObjectKey } from '@echoperator/runtime';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { Pod } from '@echoperator/runtime/kinds';
import { connectOperator } from '@echoperator/runtime/process';
import {
  type Fault,
  FaultProxy,
  type FaultTarget,
  type InjectedFault,
  isWatch,
  type RequestFilter,
} from '@echoperator/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { podSetController } from '../../src/kinds/pod-set/controller.ts';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { caches } from '../../src/operator.ts';
import { eventually } from '../../testkit/eventually.ts';
import { operatorWrites } from '../../testkit/operator-writes.ts';
import { podSettings } from '../../testkit/pod-settings.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { customManifest } from '../../testkit/with-reason.ts';

let cluster: TestCluster;
let proxy: FaultProxy;
let key: Required<ObjectKey>;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  proxy = await FaultProxy.start({ upstream: await kubeconfigConnection(cluster.kubeconfig) });
});

afterAll(async () => {
  await proxy?.close();
  await cluster?.close();
});

beforeEach(async () => {
  key = { name: 'web', namespace: await cluster.namespace() };
});

const faults: InjectedFault[] = [];

// Also after a failed test, because a slow fault would delay later tests for hours.
afterEach(() => {
  for (const fault of faults.splice(0)) fault.off();
});

function inject(fault: Fault, target: FaultTarget): InjectedFault {
  const injected = proxy.inject(fault, target);
  faults.push(injected);
  return injected;
}

/** Runs a PodSet controller for the test's namespace behind the proxy until the body has ended. */
async function withOperator(body: () => Promise<void>): Promise<void> {
  const operator = await connectOperator({
    name: 'echoperator',
    userAgent: 'echoperator/faults',
    environment: {},
    connection: proxy.connection,
    log: pino({ level: 'silent' }),
  });
  const { manager } = operator;
  const namespaces = [key.namespace];
  podSetController(podSettings).add(operator, { resyncEveryMs: 600_000, namespaces, caches });
  const stop = new AbortController();
  const running = operator.run(stop.signal);
  try {
    await Promise.race([manager.synced, running]);
    await body();
  } finally {
    stop.abort();
    await running;
  }
}

const apply = (replicas: number, of = key) =>
  cluster.client.apply(PodSet, customManifest(of, { replicas }), { force: true });

const active = async () =>
  (await cluster.client.list(Pod, { namespace: key.namespace, labelSelector: `app=${key.name}` })).items.filter(
    ({ metadata }) => metadata.deletionTimestamp === undefined,
  );

/** Waits until there are `count` active pods and the status reports them. */
const settled = (count: number): Promise<PodSet> =>
  eventually(`${key.name} has ${count} pods`, async () => {
    const set = await cluster.client.get(PodSet, key);
    const { observedGeneration, replicas } = set.status ?? {};
    const isTold = replicas === count && observedGeneration === set.metadata.generation;
    return isTold && (await active()).length === count && set;
  });

/** Returns the names of the pods that the operator created or deleted. */
async function written(verb: 'create' | 'delete'): Promise<readonly string[]> {
  const writes = (await operatorWrites(cluster.auditLog, key.namespace)).filter(
    ({ verb: is, objectRef, responseStatus }) =>
      is === verb && objectRef?.resource === 'pods' && (responseStatus?.code ?? 500) < 300,
  );
  return writes.map(({ objectRef }) => objectRef?.name ?? '').filter((name) => name.startsWith(`${key.name}-pod-`));
}

/** How many of the operator's creations of pods the API server has answered, also with a refusal. */
async function answeredCreations(): Promise<number> {
  const writes = await operatorWrites(cluster.auditLog, key.namespace);
  return writes.filter(({ verb, objectRef }) => verb === 'create' && objectRef?.resource === 'pods').length;
}

const pods: RequestFilter = ({ resource }) => resource === 'pods';
const isCreate: RequestFilter = (request) => pods(request) && request.verb === 'create';
const isLook: RequestFilter = (request) => pods(request) && request.verb === 'get';
const isPodWatch: RequestFilter = (request) => pods(request) && isWatch(request);
const isDelete: RequestFilter = (request) => pods(request) && request.verb === 'delete';

async function struck(fault: InjectedFault, times: number): Promise<void> {
  await eventually(`the fault has struck ${times} times, not ${fault.count}`, async () => fault.count >= times);
  fault.off();
}

/** Changes another PodSet and waits for its reconcile. Earlier keys have been reconciled by then. */
async function othersGoOn(): Promise<void> {
  await apply(1, { ...key, name: 'other' });
  await eventually('another PodSet has its pod', async () => {
    const { items } = await cluster.client.list(Pod, { namespace: key.namespace, labelSelector: 'app=other' });
    return items.length === 1;
  });
}

/** Delays the events of pods until the fault is off. */
const slowPods = (): InjectedFault => inject({ type: 'slow', bytesPerSecond: 1 }, { on: isPodWatch });

describe('a watch that is behind', () => {
  test('delays no reconcile, and causes no second creation or deletion of a pod', async () => {
    await withOperator(async () => {
      const slow = slowPods();
      for (const replicas of [5, 7, 3, 4]) {
        await apply(replicas);
        await settled(replicas);
      }
      expect(slow.count).toBeGreaterThan(0);
      const writes = async () => [(await written('create')).length, (await written('delete')).length];
      expect(await writes()).toEqual([8, 4]);
      slow.off();
      await othersGoOn();
      await settled(4);
      expect(await writes()).toEqual([8, 4]);
    });
  });
});

describe('a lost reply', () => {
  test.each([1, 3])('to the creation of a pod, %d in all, leads to no surplus pod', async (times) => {
    await withOperator(async () => {
      const lost = inject({ type: 'lost-response' }, { on: isCreate, times });
      await apply(6);
      await struck(lost, times);
      await settled(6);
      expect(await written('create')).toHaveLength(6);
      expect(await written('delete')).toEqual([]);
    });
  });

  // A get is sent four times, and then the creation is repeated.
  test.each([
    ['', 0, 1],
    [', and to the get after it,', 4, 2],
  ])('to the creation of the only pod%s with a stale cache leads to no second pod', async (_, looks, creations) => {
    await withOperator(async () => {
      const slow = slowPods();
      const lost = inject({ type: 'lost-response' }, { on: isCreate, times: 1 });
      const unseen = inject({ type: 'lost-response' }, { on: isLook, times: looks });
      await apply(1);
      await struck(lost, 1);
      await struck(unseen, looks);
      // The status does not tell when the creation was repeated.
      await eventually('all creations were answered', async () => (await answeredCreations()) === creations);
      await othersGoOn();
      expect(await active()).toHaveLength(1);
      slow.off();
      await settled(1);
      expect(await written('create')).toHaveLength(1);
    });
  });

  test('to the deletion of pods leads to no surplus deletion', async () => {
    await withOperator(async () => {
      await apply(6);
      await settled(6);
      const lost = inject({ type: 'lost-response' }, { on: isDelete, times: 2 });
      await apply(2);
      await struck(lost, 2);
      await settled(2);
      expect(new Set(await written('delete')).size).toBe(4);
      expect(await written('create')).toHaveLength(6);
    });
  });
});
