import { Lease, Pod } from '@echoperator/runtime/kinds';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { freePorts } from '../../testkit/free-ports.ts';
import { exitInTime } from '../../testkit/in-time.ts';
import { namespaceWithNode } from '../../testkit/kwok.ts';
import { OperatorProcess, operatorCommand, selfContainedControllers } from '../../testkit/operator-process.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { customManifest, withReason } from '../../testkit/with-reason.ts';

let cluster: TestCluster;
let namespace: string;
/** Each may be stopped twice. */
let started: { stop(signal: 'SIGKILL'): Promise<unknown> }[];
beforeAll(async () => {
  cluster = await TestCluster.connect();
});
afterAll(() => cluster?.close());
beforeEach(async () => {
  namespace = await namespaceWithNode(cluster);
  started = [];
});
afterEach(async () => {
  await Promise.all(started.map((operator) => operator.stop('SIGKILL')));
});
/** Starts an operator that works. */
async function working(settings: Readonly<Record<string, string>>): Promise<OperatorProcess> {
  const operator = await OperatorProcess.start(cluster.kubeconfig, { SCOPE_CHECK: 'true', ...settings });
  started.push(operator);
  return operator;
}

/** Starts an operator that is not expected to work yet. */
async function waiting(settings: Readonly<Record<string, string>>) {
  const [healthPort, metricsPort] = await freePorts();
  const child = operatorCommand([], {
    KUBECONFIG: cluster.kubeconfig,
    HEALTH_PORT: String(healthPort),
    METRICS_PORT: String(metricsPort),
    LOG_LEVEL: 'info',
    CONTROLLERS: selfContainedControllers.join(','),
    ...settings,
  });
  const readiness = async (): Promise<string> =>
    fetch(`http://127.0.0.1:${healthPort}/readyz`).then(
      (response) => response.text(),
      () => '',
    );
  /** Returns its output. */
  const stop = async (signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<string> => {
    child.kill(signal);
    await exitInTime('the operator', child);
    return (await child).all ?? '';
  };
  const operator = { readiness, stop };
  started.push(operator);
  return operator;
}

const apply = (name: string, replicas: number) =>
  cluster.client.apply(PodSet, customManifest({ name, namespace }, { replicas }), { force: true });

/** Creates a PodSet and returns the names of all pods that it ever had. */
async function podsEverOf(name: string): Promise<ReadonlySet<string>> {
  const ever = new Set<string>();
  await apply(name, 8);
  await eventually('its pods are ready', async () => {
    const { items } = await cluster.client.list(Pod, { namespace, labelSelector: `app=${name}` });
    for (const { metadata } of items) ever.add(metadata.name);
    const { status } = await cluster.client.get(PodSet, { name, namespace });
    return status?.readyReplicas === 8;
  });
  await withReason(cluster, PodSet, { name, namespace }, 'PodsReady');
  const { items } = await cluster.client.list(Pod, { namespace, labelSelector: `app=${name}` });
  for (const { metadata } of items) ever.add(metadata.name);
  return ever;
}

/** Who holds a Lease of those that persons start. */
const holdersByHand = async (): Promise<readonly string[]> => {
  const { items } = await cluster.client.list(Lease, { namespace: 'default', labelSelector: 'echoperator/scope' });
  return items.flatMap(({ spec }) => spec?.holderIdentity?.split('_')[0] || []);
};

test('of two operators that persons start one works, and the other one when that has stopped', async () => {
  const first = await working({ WATCH_NAMESPACES: namespace, HA_NODE_ID: 'first' });
  const second = await waiting({ WATCH_NAMESPACES: namespace, HA_NODE_ID: 'second' });
  await eventually('it stands by', async () => (await second.readiness()) === 'ok\n');
  expect((await podsEverOf('eight')).size).toBe(8);
  expect(await holdersByHand()).toEqual(['first']);
  await first.stop();
  await eventually('it leads', async () => (await holdersByHand()).includes('second'));
  expect((await podsEverOf('more')).size).toBe(8);
  expect(await second.stop()).toMatch(/"leader":"first_[-0-9a-f]{36}"/);
});

test('an operator of all namespaces that a person starts waits beside a release of one', async () => {
  const home = await cluster.namespace();
  await working({ WATCH_NAMESPACES: namespace, HA_ENABLED: 'true', NAMESPACE: home, HA_NODE_ID: 'release' });
  const second = await waiting({ HA_NODE_ID: 'person' });
  const works = `works in namespace ${namespace} (lease ${home}/echoperator)`;
  await eventually('it says who works', async () => (await second.readiness()).includes(works));
  expect((await podsEverOf('eight')).size).toBe(8);
  expect(await holdersByHand()).toEqual([]);
  expect(await second.stop()).toMatch(/"msg":"release_[-0-9a-f]{36} works in namespace /);
});

test('an operator that a person started ends when a release watches its namespaces', async () => {
  const operator = await working({ WATCH_NAMESPACES: namespace, HA_NODE_ID: 'person' });
  // What its leader writes. It sees no Lease in other namespaces.
  await cluster.client.create(Lease, {
    metadata: {
      name: 'demo-echoperator',
      namespace: await cluster.namespace(),
      labels: { 'echoperator/scope': '' },
      annotations: { 'echoperator/watches': JSON.stringify([namespace]) },
    },
    spec: { holderIdentity: 'release_1', leaseDurationSeconds: 15 },
  });
  const { exitCode, output } = await operator.waitForExit();
  expect(exitCode).toBe(1);
  expect(output).toContain(
    'echoperator: two operators must not watch the same namespace: release_1 works in namespace',
  );
  expect(await holdersByHand()).toEqual([]);
});
