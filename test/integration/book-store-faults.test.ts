import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { ControllerRevision, type Pod, type StatefulSet } from '../../src/controllers/built-in-kinds.ts';
import { isControlledBy, Lease } from '../../src/runtime/index.ts';
import {
  type FaultProxy,
  type InjectedFault,
  isWatch,
  isWrite,
  type RequestFilter,
} from '../../src/runtime/testing/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import type { OperatorProcess } from '../../testkit/operator-process.ts';
import { operatorWrites } from '../../testkit/operator-writes.ts';
import { proxiedKubeconfig } from '../../testkit/proxied-kubeconfig.ts';
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
  setUp,
  spec,
  startOperator,
  statefulSetOf,
  stopOperator,
  tearDown,
  templateSizeOf,
  type World,
  world,
} from './environment/book-store-world.ts';

let at: World;
let proxy: FaultProxy;
let kubeconfig: string;
const operators: OperatorProcess[] = [];
const faults: InjectedFault[] = [];

beforeAll(() => setUp('book-store-faults', { operator: false }), 120_000);
afterAll(() => tearDown(), 120_000);

beforeEach(async () => {
  at = await world('shop');
  ({ proxy, kubeconfig } = await proxiedKubeconfig(chartKubeconfig(), folder));
}, 60_000);

afterEach(async () => {
  for (const fault of faults.splice(0)) fault.off();
  for (const operator of operators.splice(0)) await operator.stop('SIGKILL');
  await proxy.close();
}, 60_000);

/** An operator of this namespace, all of whose requests pass the proxy. */
async function start(settings: Readonly<Record<string, string>> = {}): Promise<OperatorProcess> {
  const operator = await startOperator({ WATCH_NAMESPACES: at.key.namespace, ...settings }, kubeconfig);
  operators.push(operator);
  return operator;
}

function inject(...what: Parameters<FaultProxy['inject']>): InjectedFault {
  const fault = proxy.inject(...what);
  faults.push(fault);
  return fault;
}

const unavailable = (on: RequestFilter) =>
  inject({ type: 'answer', status: 503, reason: 'ServiceUnavailable' }, { on });

const isStatefulSet: RequestFilter = ({ resource }) => resource === 'statefulsets';
const isDeletion: RequestFilter = (request) => isStatefulSet(request) && request.verb === 'delete';
/** The last step's. An apply is one by force. */
const isHandOver: RequestFilter = (request) =>
  isStatefulSet(request) && request.method === 'PATCH' && request.query.get('force') !== 'true';
const isForgetting: RequestFilter = ({ resource, verb }) => resource === 'controllerrevisions' && verb === 'delete';

const kept = () => ifThere(cluster.client.get(ControllerRevision, { ...at.key, name: 'shop-db-recreation' }));
const deletions = async () =>
  (await operatorWrites(cluster.auditLog, at.key.namespace)).filter(
    ({ verb, objectRef, responseStatus }) =>
      verb === 'delete' && objectRef?.resource === 'statefulsets' && (responseStatus?.code ?? 500) < 300,
  );

interface Before {
  readonly pods: readonly Pod[];
  readonly statefulSet: StatefulSet;
}

/** A BookStore with two databases that run. */
async function running(): Promise<Before> {
  await apply(at.key, spec({}, { replicas: 2, tag: 'one' }));
  await settled(at, 'IndependentDatabases');
  return { pods: [await podOf(at.key, 0), await podOf(at.key, 1)], statefulSet: await statefulSetOf(at.key) };
}

const grow = async (): Promise<void> => {
  await apply(at.key, spec({}, { replicas: 2, tag: 'one', dbSize: '2Gi' }));
  await growOnline(at, '2Gi', [0, 1]);
};

/** The growth has come to its end, and no pod has noticed. */
async function hasGrown({ pods, statefulSet }: Before): Promise<void> {
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

describe('an operator that is killed', () => {
  test.each([
    ['when what is kept is made, and the StatefulSet not yet deleted', isDeletion],
    ['when the StatefulSet is made anew, and not yet what it was to its managers', isHandOver],
    ['when the StatefulSet is made anew, and what was kept not yet gone', isForgetting],
  ])(
    '%s has a successor that goes on from there',
    async (_, on) => {
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
    },
    240_000,
  );
});

test('another leader goes on with a growth in the middle', async () => {
  // The chart lets an operator have its Lease in its own namespace alone.
  await proxy.close();
  ({ proxy, kubeconfig } = await proxiedKubeconfig(cluster.kubeconfig, folder));
  const quick = { HA_LEASE_DURATION_SECONDS: '4', HA_RENEW_DEADLINE_SECONDS: '3', HA_RETRY_PERIOD_SECONDS: '0.5' };
  const contend = (name: string) =>
    start({ ...quick, NAMESPACE: at.key.namespace, HA_ENABLED: 'true', HA_NODE_ID: name });
  const holder = async () => {
    const lease = await cluster.client.get(Lease, { namespace: at.key.namespace, name: 'echoperator' });
    return lease.spec?.holderIdentity?.split('_')[0];
  };
  const first = await contend('first');
  await eventually('first leads', async () => (await holder()) === 'first');
  await contend('second');
  const before = await running();
  const held = unavailable(isDeletion);
  await grow();
  await eventually('it is about to be made anew', async () => held.count > 0 && (await kept()) !== undefined, 60_000);
  await first.stop('SIGKILL');
  await eventually('second leads', async () => (await holder()) === 'second', 60_000);
  held.off();
  await hasGrown(before);
  expect(await deletions()).toHaveLength(1);
}, 240_000);

test('a growth comes to its end through lost answers, refused requests and watches that break off', async () => {
  await start();
  const before = await running();
  // Seldom enough for a reconcile of several writes to come to its end: each that fails is tried again after a longer pause.
  const lost = inject({ type: 'lost-reply' }, { on: isWrite, every: 7 });
  const refused = inject({ type: 'answer', status: 503, reason: 'ServiceUnavailable' }, { on: isWrite, every: 11 });
  // A watch that breaks off at once is opened again after 0.8 s, then after twice that and so on: few, or this takes minutes.
  const cut = () => inject({ type: 'cut', how: 'reset' }, { on: isWatch, times: 2 });
  const cuts = [cut()];
  await apply(at.key, spec({}, { replicas: 2, tag: 'one', dbSize: '2Gi' }));
  for (const ordinal of [0, 1]) {
    await growOnline(at, '2Gi', [ordinal]);
    cuts.push(cut());
  }
  await eventually(
    'it is made anew',
    async () => {
      const now = await ifThere(statefulSetOf(at.key));
      return now !== undefined && now.metadata.uid !== before.statefulSet.metadata.uid;
    },
    240_000,
  );
  cuts.push(cut());
  await settled(at, 'IndependentDatabases');
  for (const fault of [lost, refused, ...cuts]) {
    expect(fault.count).toBeGreaterThan(0);
    fault.off();
  }
  await hasGrown(before);
  // One whose answer was lost is asked for again, and finds none of that uid.
  expect(await deletions()).toHaveLength(1);
}, 480_000);
