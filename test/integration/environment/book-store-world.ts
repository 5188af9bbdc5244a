import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { findCondition, type Kind, type KubeObject, type ObjectKey } from '@echoperator/runtime';
import { isNotFound } from '@echoperator/runtime/client';
import { Deployment, PersistentVolumeClaim, Pod, StatefulSet, StorageClass } from '@echoperator/runtime/kinds';
import { expect } from '@jest/globals';
import { BookStore } from '../../../src/kinds/book-store/kind.ts';
import { ChartRole } from '../../../testkit/chart-role.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { namespaceWithNode } from '../../../testkit/kwok.ts';
import { OperatorProcess } from '../../../testkit/operator-process.ts';
import { operatorWrites } from '../../../testkit/operator-writes.ts';
import { TestCluster } from '../../../testkit/test-cluster.ts';
import { customManifest } from '../../../testkit/with-reason.ts';
import { PlayedVolumes } from './played-volumes.ts';

/** What the tests of BookStores share: one operator a file, which does all by just what the chart allows. */

type Spec = BookStore['spec'];
export type Key = Required<ObjectKey>;

export let cluster: TestCluster;
let role: ChartRole;
let operator: OperatorProcess;
/** Of two StorageClasses: of one the volumes can grow, of the other they cannot. */
let growable = '';
export let fixed = '';
/** The test's own, removed in the end. */
export let folder: string;
const outputs: string[] = [];

/**
 * @param release under which the roles stand in the whole cluster: a file's own.
 * @param options.operator whether one starts now, for all namespaces. Default: true.
 */
export async function setUp(release: string, options: { readonly operator?: boolean } = {}): Promise<void> {
  cluster = await TestCluster.connect();
  folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', `${release}-`));
  const namespace = await cluster.namespace();
  [growable, fixed] = [`growable-${namespace}`, `fixed-${namespace}`];
  for (const [name, allowVolumeExpansion] of [[growable, true] as const, [fixed, false] as const]) {
    await cluster.client.create(StorageClass, {
      metadata: { name },
      provisioner: 'played.example.com',
      allowVolumeExpansion,
    });
  }
  role = await ChartRole.install(cluster, release, namespace);
  if (options.operator ?? true) await startOperator();
}

/** Ends all, and fails where the chart's role has not allowed something. */
export async function tearDown(): Promise<void> {
  if (operator !== undefined) await stopOperator();
  for (const name of [growable, fixed]) await cluster?.client.delete(StorageClass, { name });
  await role?.remove();
  await cluster?.close();
  await rm(folder, { recursive: true, force: true });
  expect(outputs.join('\n')).not.toMatch(/cannot \w+ resource/);
  expect(outputs.join('\n')).not.toContain('cannot set an ownerRef');
}

/** With the kubeconfig of the chart's account, unless it is to be another one. */
export async function startOperator(
  settings: Readonly<Record<string, string>> = {},
  kubeconfig = role.kubeconfig,
): Promise<OperatorProcess> {
  operator = await OperatorProcess.start(kubeconfig, settings);
  return operator;
}

export const chartKubeconfig = (): string => role.kubeconfig;

export async function stopOperator(signal?: 'SIGKILL'): Promise<void> {
  outputs.push((await operator.stop(signal)).output);
}

/** A namespace of its own in which pods run, for a BookStore of this name. */
export async function world(name: string): Promise<{ readonly key: Key; readonly volumes: PlayedVolumes }> {
  const namespace = await namespaceWithNode(cluster);
  return { key: { namespace, name }, volumes: new PlayedVolumes(cluster.client, namespace) };
}
export type World = Awaited<ReturnType<typeof world>>;

export const spec = (app: Partial<Spec['bookApp']> = {}, db: Partial<Spec['bookDB']> = {}): Spec => ({
  bookApp: { repository: 'example.com/app', replicas: 1, ...app },
  bookDB: { repository: 'example.com/db', dbSize: '1Gi', storageClassName: growable, ...db },
});

/** The same with the app's replicas left to others. */
export function withoutReplicas(from: Spec): Spec {
  const { replicas: _, ...bookApp } = from.bookApp;
  return { ...from, bookApp };
}

export const apply = (key: ObjectKey, wanted: Spec) =>
  cluster.client.apply(BookStore, customManifest(key, wanted), { force: true });

export const childOf = <T extends KubeObject>(kind: Kind<T>, { namespace }: Key, name: string): Promise<T> =>
  cluster.client.get(kind, { namespace, name });
export const deploymentOf = (key: Key) => childOf(Deployment, key, `${key.name}-app`);
export const statefulSetOf = (key: Key) => childOf(StatefulSet, key, `${key.name}-db`);
export const claimOf = (key: Key, ordinal = 0) => childOf(PersistentVolumeClaim, key, `data-${key.name}-db-${ordinal}`);
export const podOf = (key: Key, ordinal = 0) => childOf(Pod, key, `${key.name}-db-${ordinal}`);
export const requestOf = async (key: Key, ordinal = 0) =>
  (await claimOf(key, ordinal)).spec?.resources?.requests?.storage;
export const imageOf = ({ spec }: Deployment | StatefulSet, name = spec?.template.spec?.containers[0]?.name) =>
  spec?.template.spec?.containers.find((container) => container.name === name)?.image;
export const templateSizeOf = ({ spec }: StatefulSet) =>
  spec?.volumeClaimTemplates?.[0]?.spec?.resources?.requests?.storage;

/** Undefined if the object does not exist. */
export async function unlessAbsent<T>(get: Promise<T>): Promise<T | undefined> {
  return get.catch((error: unknown) => {
    if (isNotFound(error)) return undefined;
    throw error;
  });
}

/** Waits until a condition has the reason for the present generation. */
async function withReason({ key }: World, type: string, reason: string): Promise<BookStore> {
  let last: unknown;
  const look = async () => {
    const store = await cluster.client.get(BookStore, key);
    const condition = findCondition(store.status?.conditions, type);
    last = store.status;
    return condition?.reason === reason && condition.observedGeneration === store.metadata.generation && store;
  };
  return eventually(`${key.name} is ${reason}`, look).catch((cause: unknown) => {
    throw new Error(`${key.name} never had ${type} with ${reason}; last: ${JSON.stringify(last)}`, { cause });
  });
}

export const settled = (at: World, reason = 'AllReady') => withReason(at, 'Ready', reason);

/** Has the volumes of these replicas grow, online, once their claims ask for it. */
export async function growOnline(at: World, size: string, ordinals: readonly number[] = [0]): Promise<void> {
  for (const ordinal of ordinals) {
    await eventually(`claim ${ordinal} asks for ${size}`, async () => (await requestOf(at.key, ordinal)) === size);
    await at.volumes.growVolume(`data-${at.key.name}-db-${ordinal}`);
    await at.volumes.growFileSystem(`data-${at.key.name}-db-${ordinal}`);
  }
}

export const merge = <T extends KubeObject>(
  kind: Kind<T>,
  { metadata }: { readonly metadata: ObjectKey },
  body: object,
) => cluster.client.patch(kind, metadata, { type: 'merge', body });

/** Collects every state of an object after one version of it. */
export function statesOf<T extends KubeObject>(kind: Kind<T>, { metadata }: { readonly metadata: T['metadata'] }) {
  const states: T[] = [];
  const stop = new AbortController();
  const { name, namespace = '', resourceVersion } = metadata;
  const fieldSelector = `metadata.name=${name}`;
  const watching = (async () => {
    const options = { namespace, fieldSelector, resourceVersion, timeoutSeconds: 300, signal: stop.signal };
    for await (const event of cluster.client.watch(kind, options)) {
      if (event.type === 'ADDED' || event.type === 'MODIFIED') states.push(event.object);
    }
  })().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  return {
    end: async (): Promise<readonly T[]> => {
      stop.abort();
      await watching;
      return states;
    },
  };
}

/** What the operator has sent to change something in the namespace, but for Events, whatever was answered. */
const writes = async ({ namespace }: Key) =>
  (await operatorWrites(cluster.auditLog, namespace))
    .filter(({ objectRef }) => objectRef?.resource !== 'events')
    .map(({ verb, objectRef }) => `${verb} ${objectRef?.resource}/${objectRef?.subresource ?? ''} ${objectRef?.name}`);
/** How many reconciles of BookStores have ended well, whether or not another look is due. */
async function reconciled(by: OperatorProcess): Promise<number> {
  const lines =
    /^controller_runtime_reconcile_total\{controller="bookstore",result="(?:success|requeue_after)"\} (\d+)$/gm;
  return [...(await by.metrics()).matchAll(lines)].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Has another operator look at each BookStore of a namespace when it starts, and so many times more. */
async function restartAndResync(namespace: string, resyncs: number, resyncSeconds: number): Promise<void> {
  await stopOperator();
  const stores = (await cluster.client.list(BookStore, { namespace })).items.length;
  await startOperator({ WATCH_NAMESPACES: namespace, RESYNC_SECONDS: String(resyncSeconds) });
  const look = async () => (await reconciled(operator)) >= (1 + resyncs) * stores;
  await eventually('every BookStore was looked at again', look, 60_000 + stores * 1000);
  await stopOperator();
  await startOperator();
}

/**
 * So many BookStores in a namespace become ready; after that neither a restart of the operator nor resyncs send a
 * write.
 */
export async function convergesAndRests(count: number, wanted: Spec): Promise<void> {
  const at = await world('many');
  const keys = Array.from({ length: count }, (_, index) => ({ ...at.key, name: `shop-${index}` }));
  const { bookApp, bookDB } = wanted;
  await Promise.all(
    keys.map((key) =>
      apply(key, {
        bookApp: { ...bookApp, serviceName: key.name },
        bookDB: { ...bookDB, serviceName: `${key.name}-data` },
      }),
    ),
  );
  const areReady = async () => {
    const { items } = await cluster.client.list(BookStore, { namespace: at.key.namespace });
    return items.every(
      ({ status }) =>
        findCondition(status?.conditions, 'Ready')?.reason === 'AllReady' &&
        status?.volumes?.every(({ capacity }) => capacity !== undefined),
    );
  };
  await eventually('all are ready', areReady, 60_000 + count * 1000);
  const before = await writes(at.key);
  await restartAndResync(at.key.namespace, 2, 1 + count / 50);
  expect(await writes(at.key)).toEqual(before);
}
