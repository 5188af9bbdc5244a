import type { ObjectKey } from '@echoperator/runtime';
import { Pod } from '@echoperator/runtime/kinds';
import { PodSet } from '../../../src/kinds/pod-set/kind.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { namespaceWithNode } from '../../../testkit/kwok.ts';
import { OperatorProcess } from '../../../testkit/operator-process.ts';
import { operatorWrites } from '../../../testkit/operator-writes.ts';
import { TestCluster } from '../../../testkit/test-cluster.ts';
import { customManifest, withReason as readyWithReason } from '../../../testkit/with-reason.ts';

/** Shared by the tests of PodSets: an operator per test file, which tests can restart. */

export let cluster: TestCluster;
export let operator: OperatorProcess;

/** The image of pods without a template. */
export const podSetImage = 'registry.example/sleeper:1';

export async function setUp(): Promise<void> {
  cluster = await TestCluster.connect();
  operator = await OperatorProcess.start(cluster.kubeconfig, { POD_SET_IMAGE: podSetImage });
}

export async function tearDown(): Promise<void> {
  await operator?.stop();
  await cluster?.close();
}

export async function restartOperator(signal?: 'SIGKILL'): Promise<void> {
  await operator.stop(signal);
  operator = await OperatorProcess.start(cluster.kubeconfig, { POD_SET_IMAGE: podSetImage });
}

type Key = Required<ObjectKey>;

/** Returns the key of a PodSet in a new namespace in which pods run. */
export const keyNamed = async (name: string): Promise<Key> => ({ name, namespace: await namespaceWithNode(cluster) });

export const apply = (key: ObjectKey, spec: PodSet['spec']) =>
  cluster.client.apply(PodSet, customManifest(key, spec), { force: true });
export const podsIn = async (namespace: string) => (await cluster.client.list(Pod, { namespace })).items;
export const active = async (namespace: string) =>
  (await podsIn(namespace)).filter(
    ({ metadata, status }) =>
      metadata.deletionTimestamp === undefined && status?.phase !== 'Failed' && status?.phase !== 'Succeeded',
  );
export const namesOf = (pods: readonly Pod[]): string[] => pods.map(({ metadata }) => metadata.name).sort();

export const withReason = (key: ObjectKey, reason: string): Promise<PodSet> =>
  readyWithReason(cluster, PodSet, key, reason);

/** Waits until there are `count` active pods and the status reports them. */
export const settled = (key: Key, count: number): Promise<PodSet> =>
  eventually(`${key.name} has ${count} pods`, async () => {
    const [set, pods] = [await cluster.client.get(PodSet, key), await active(key.namespace)];
    const { observedGeneration, replicas } = set.status ?? {};
    return pods.length === count && replicas === count && observedGeneration === set.metadata.generation && set;
  });

export const creations = async (namespace: string, code?: number) =>
  (await operatorWrites(cluster.auditLog, namespace)).filter(
    ({ verb, objectRef, responseStatus, requestURI }) =>
      verb === 'create' &&
      objectRef?.resource === 'pods' &&
      objectRef.subresource === undefined &&
      !requestURI.includes('dryRun=All') &&
      (code === undefined || responseStatus?.code === code),
  ).length;

/** Returns the names of the pods whose deletion the operator requested. */
export const removals = async (namespace: string) =>
  (await operatorWrites(cluster.auditLog, namespace))
    .filter(({ verb, objectRef }) => verb === 'delete' && objectRef?.resource === 'pods')
    .map(({ objectRef }) => objectRef?.name ?? '');
