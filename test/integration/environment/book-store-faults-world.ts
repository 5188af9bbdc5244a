import type { Pod, StatefulSet } from '@echoperator/runtime/kinds';
import { type FaultProxy, type InjectedFault, isWatch, isWrite, type RequestFilter } from '@echoperator/testing';
import { expect } from '@jest/globals';
import type { OperatorProcess } from '../../../testkit/operator-process.ts';
import { proxiedKubeconfig } from '../../../testkit/proxied-kubeconfig.ts';
import {
  apply,
  chartKubeconfig,
  claimOf,
  folder,
  growOnline,
  imageOf,
  podOf,
  settled,
  spec,
  startOperator,
  statefulSetOf,
  type World,
  world,
} from './book-store-world.ts';

/**
 * What the tests of a growth through faults share: each has a namespace, a proxy before the API server, and operators
 * behind it.
 */

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

function inject(...what: Parameters<FaultProxy['inject']>): InjectedFault {
  const fault = proxy.inject(...what);
  faults.push(fault);
  return fault;
}

export const unavailable = (on: RequestFilter) =>
  inject({ type: 'error-response', status: 503, reason: 'ServiceUnavailable' }, { on });

/** The request that has a claim grow. */
export const isClaimPatch: RequestFilter = ({ resource, method }) =>
  resource === 'persistentvolumeclaims' && method === 'PATCH';

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

export const askForMore = () => apply(at.key, spec({}, { replicas: 2, tag: 'one', dbSize: '2Gi' }));

/** The growth has come to its end, and no pod has noticed. */
export async function hasGrown({ pods, statefulSet }: Before): Promise<void> {
  await settled(at, 'IndependentDatabases');
  const after = await statefulSetOf(at.key);
  expect(after.metadata.uid).toBe(statefulSet.metadata.uid);
  expect(imageOf(after)).toBe('example.com/db:one');
  for (const [ordinal, { metadata, status }] of pods.entries()) {
    const pod = await podOf(at.key, ordinal);
    expect([pod.metadata.uid, pod.status?.startTime]).toEqual([metadata.uid, status?.startTime]);
    expect((await claimOf(at.key, ordinal)).status?.capacity?.storage).toBe('2Gi');
  }
  await apply(at.key, spec({}, { replicas: 3, tag: 'one', dbSize: '2Gi' }));
  await growOnline(at, '2Gi', [2]);
  await settled(at, 'IndependentDatabases');
}

/** A growth comes to its end though answers are lost, writes fail and, if asked for, watches break off. */
export async function growsThroughFaults({ cutWatches }: { readonly cutWatches: boolean }): Promise<void> {
  await start();
  const before = await running();
  // Seldom enough for a reconcile to succeed in the end: each retry waits for longer.
  const lost = inject({ type: 'lost-response' }, { on: isWrite, every: 3 });
  const failed = inject(
    { type: 'error-response', status: 503, reason: 'ServiceUnavailable' },
    { on: isWrite, every: 2 },
  );
  const cuts: InjectedFault[] = [];
  // A watch that breaks off at once is opened again after 0.8 s, then after twice that and so on: few, or this takes
  // minutes.
  const cut = () => {
    if (cutWatches) cuts.push(inject({ type: 'cut', how: 'reset' }, { on: isWatch, times: 2 }));
  };
  cut();
  await askForMore();
  for (const ordinal of [0, 1]) {
    await growOnline(at, '2Gi', [ordinal]);
    cut();
  }
  await settled(at, 'IndependentDatabases');
  for (const fault of [lost, failed, ...cuts]) {
    expect(fault.count).toBeGreaterThan(0);
    fault.off();
  }
  await hasGrown(before);
}
