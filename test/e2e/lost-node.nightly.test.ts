import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import type { V1Pod } from '@kubernetes/client-node';
import type { PodSet } from '../../src/kinds/pod-set/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { Cluster } from '../../tools/cluster/index.ts';
import { E2eCluster } from './environment/cluster.ts';
import { Release } from './environment/release.ts';

// A node that is lost is noticed after 15 s, and what ran on it replaced after that.
jest.setTimeout(300_000);

const replicas = 6;

let cluster: E2eCluster;
let release: Release;
let ns: string;

beforeAll(async () => {
  cluster = await E2eCluster.connect();
  release = await Release.install(cluster, ['--set', 'controllers.podSet.enabled=true']);
  ns = await cluster.namespace();
});

afterAll(async () => {
  if (ns !== undefined) await cluster.deleteNamespace(ns);
  await release?.uninstall();
});

const pods = async () => (await cluster.get<{ items: V1Pod[] }>('pods', '--namespace', ns)).items;
const isStaying = ({ metadata }: V1Pod): boolean => metadata?.deletionTimestamp === undefined;
const namesOf = (some: readonly V1Pod[]): readonly string[] => some.map(({ metadata }) => metadata?.name ?? '').sort();

/** Its pods leave a node at once that is not to be reached, and stop at once when they are asked to. */
const template = {
  spec: {
    terminationGracePeriodSeconds: 1,
    tolerations: ['not-ready', 'unreachable'].map((taint) => ({
      key: `node.kubernetes.io/${taint}`,
      operator: 'Exists',
      effect: 'NoExecute',
      tolerationSeconds: 1,
    })),
    containers: [
      { name: 'sleeper', image: 'busybox:1.36', imagePullPolicy: 'IfNotPresent', command: ['sleep', '3600'] },
    ],
  },
};

const allReady = () =>
  eventually('all pods are ready', async () => {
    const { status } = await cluster.get<PodSet>('podset/spread', '--namespace', ns);
    return status?.replicas === replicas && status.readyReplicas === replicas && status;
  });

test('a PodSet replaces the pods of a node that is powered off, and has no surplus pods when the node is back', async () => {
  await cluster.apply({
    apiVersion: 'app.example.com/v1alpha1',
    kind: 'PodSet',
    metadata: { name: 'spread', namespace: ns },
    spec: { replicas, template },
  });
  await allReady();
  const all = await pods();
  const victim = all[0]?.spec?.nodeName ?? '';
  const lost = namesOf(all.filter(({ spec }) => spec?.nodeName === victim));
  const nodes = await Cluster.find('e2e');
  await nodes.killNode(victim);
  try {
    await eventually(
      'as many are elsewhere',
      async () => {
        const staying = (await pods()).filter(isStaying);
        return staying.length === replicas && staying.every(({ spec }) => spec?.nodeName !== victim);
      },
      120_000,
    );
    await allReady();
  } finally {
    await nodes.startNode(victim);
  }
  await nodes.waitUntilNodesReady();
  await eventually('the lost are gone', async () => (await pods()).length === replicas, 90_000);
  const { podNames } = await allReady();
  expect(podNames).toEqual(namesOf(await pods()));
  expect(lost.filter((name) => podNames?.includes(name))).toEqual([]);
});
