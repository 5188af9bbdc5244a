import { expect } from '@jest/globals';
import { ControllerRevision, type Pod, type StatefulSet } from '../../../src/controllers/built-in-kinds.ts';
import { isControlledBy } from '../../../src/runtime/index.ts';
import {
  type FaultProxy,
  type InjectedFault,
  isWatch,
  isWrite,
  type RequestFilter,
} from '../../../src/runtime/testing/index.ts';
import { eventually } from '../../../testkit/eventually.ts';
import type { OperatorProcess } from '../../../testkit/operator-process.ts';
import { operatorWrites } from '../../../testkit/operator-writes.ts';
import { proxiedKubeconfig } from '../../../testkit/proxied-kubeconfig.ts';
import {
  apply,
  chartKubeconfig,
  claimOf,
  cluster,
  folder,
  growOnline,
  ifThere,
  imageOf,
  podOf,
  requestOf,
  settled,
  spec,
  startOperator,
  statefulSetOf,
  stopOperator,
  templateSizeOf,
  type World,
  world,
} from './book-store-world.ts';

/** What the tests of a growth through faults share: each has a namespace, a proxy before the API server, and operators behind it. */

export let at: World;
let proxy: FaultProxy;
let kubeconfig: string;
const operators: OperatorProcess[] = [];
const faults: InjectedFault[] = [];

/** @param account whose kubeconfig the operators use. Default: that of the chart's account. */
export async function setUpFaults(account = chartKubeconfig()): Promise<void> {
  at = await world('shop');
  ({ proxy, kubeconfig } = await proxiedKubeconfig(account, folder));
}

export async function tearDownFaults(): Promise<void> {
  for (const fault of faults.splice(0)) fault.off();
  for (const operator of operators.splice(0)) await operator.stop('SIGKILL');
  await proxy.close();
}

/** An operator of this namespace, all of whose requests pass the proxy. */
export async function start(settings: Readonly<Record<string, string>> = {}): Promise<OperatorProcess> {
  const operator = await startOperator({ WATCH_NAMESPACES: at.key.namespace, ...settings }, kubeconfig);
  operators.push(operator);
  return operator;
}

export function inject(...what: Parameters<FaultProxy['inject']>): InjectedFault {
  const fault = proxy.inject(...what);
  faults.push(fault);
  return fault;
}

export const unavailable = (on: RequestFilter) =>
  inject({ type: 'answer', status: 503, reason: 'ServiceUnavailable' }, { on });

export const isStatefulSet: RequestFilter = ({ resource }) => resource === 'statefulsets';
export const isDeletion: RequestFilter = (request) => isStatefulSet(request) && request.verb === 'delete';
/** The last step's. An apply is one by force. */
export const isHandOver: RequestFilter = (request) =>
  isStatefulSet(request) && request.method === 'PATCH' && request.query.get('force') !== 'true';
export const isForgetting: RequestFilter = ({ resource, verb }) =>
  resource === 'controllerrevisions' && verb === 'delete';

export const kept = () => ifThere(cluster.client.get(ControllerRevision, { ...at.key, name: 'shop-db-recreation' }));
export const deletions = async () =>
  (await operatorWrites(cluster.auditLog, at.key.namespace)).filter(
    ({ verb, objectRef, responseStatus }) =>
      verb === 'delete' && objectRef?.resource === 'statefulsets' && (responseStatus?.code ?? 500) < 300,
  );

export interface Before {
  readonly pods: readonly Pod[];
  readonly statefulSet: StatefulSet;
}

/** A BookStore with two databases that run. */
export async function running(): Promise<Before> {
  await apply(at.key, spec({}, { replicas: 2, tag: 'one' }));
  await settled(at, 'IndependentDatabases');
  return { pods: [await podOf(at.key, 0), await podOf(at.key, 1)], statefulSet: await statefulSetOf(at.key) };
}

export const grow = async (): Promise<void> => {
  await apply(at.key, spec({}, { replicas: 2, tag: 'one', dbSize: '2Gi' }));
  await growOnline(at, '2Gi', [0, 1]);
};

/** The growth has come to its end, and no pod has noticed. */
export async function hasGrown({ pods, statefulSet }: Before): Promise<void> {
  await settled(at, 'IndependentDatabases');
  const after = await statefulSetOf(at.key);
  expect(after.metadata.uid).not.toBe(statefulSet.metadata.uid);
  expect(templateSizeOf(after)).toBe('2Gi');
  expect(imageOf(after)).toBe('example.com/db:one');
  await eventually('nothing is kept any more', async () => (await kept()) === undefined);
  for (const [ordinal, { metadata, status }] of pods.entries()) {
    const pod = await eventually('the pod is taken up', async () => {
      const now = await podOf(at.key, ordinal);
      return isControlledBy(now, after) && now;
    });
    expect([pod.metadata.uid, pod.status?.startTime]).toEqual([metadata.uid, status?.startTime]);
    expect((await claimOf(at.key, ordinal)).status?.capacity?.storage).toBe('2Gi');
  }
  await apply(at.key, spec({}, { replicas: 3, tag: 'one', dbSize: '2Gi' }));
  await settled(at, 'IndependentDatabases');
  expect(await requestOf(at.key, 2)).toBe('2Gi');
}

/** An operator is killed at a step of a growth, and its successor goes on from there. */
export async function killedAt(on: RequestFilter): Promise<void> {
  await start();
  const before = await running();
  const held = unavailable(on);
  await grow();
  await eventually('it has got there', async () => held.count > 0 && (await kept()) !== undefined, 60_000);
  await stopOperator('SIGKILL');
  const uid = (await ifThere(statefulSetOf(at.key)))?.metadata.uid;
  expect(uid === before.statefulSet.metadata.uid).toBe(on === isDeletion);
  held.off();
  await start();
  await hasGrown(before);
  expect(await deletions()).toHaveLength(1);
}

const isMadeAnew = ({ statefulSet }: Before) =>
  eventually(
    'it is made anew',
    async () => {
      const now = await ifThere(statefulSetOf(at.key));
      return now !== undefined && now.metadata.uid !== statefulSet.metadata.uid;
    },
    240_000,
  );

/** A growth comes to its end though answers are lost, writes are refused and, if asked for, watches break off. */
export async function growsThroughFaults({ cutWatches }: { readonly cutWatches: boolean }): Promise<void> {
  await start();
  const before = await running();
  // Seldom enough for a reconcile of several writes to come to its end: each that fails is tried again after a longer pause.
  const lost = inject({ type: 'lost-reply' }, { on: isWrite, every: 7 });
  const refused = inject({ type: 'answer', status: 503, reason: 'ServiceUnavailable' }, { on: isWrite, every: 11 });
  const cuts: InjectedFault[] = [];
  // A watch that breaks off at once is opened again after 0.8 s, then after twice that and so on: few, or this takes minutes.
  const cut = () => {
    if (cutWatches) cuts.push(inject({ type: 'cut', how: 'reset' }, { on: isWatch, times: 2 }));
  };
  cut();
  await apply(at.key, spec({}, { replicas: 2, tag: 'one', dbSize: '2Gi' }));
  for (const ordinal of [0, 1]) {
    await growOnline(at, '2Gi', [ordinal]);
    cut();
  }
  await isMadeAnew(before);
  cut();
  await settled(at, 'IndependentDatabases');
  for (const fault of [lost, refused, ...cuts]) {
    expect(fault.count).toBeGreaterThan(0);
    fault.off();
  }
  await hasGrown(before);
  // One whose answer was lost is asked for again, and finds none of that uid.
  expect(await deletions()).toHaveLength(1);
}
