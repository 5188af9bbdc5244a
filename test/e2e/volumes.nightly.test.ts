import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { V1PersistentVolume, V1PersistentVolumeClaim, V1Pod } from '@kubernetes/client-node';
import { eventually } from '../../testkit/eventually.ts';
import { cacheFolder } from '../../tools/cache-folder.ts';
import { Cluster, removeClusterOnExit, type Watchdog } from '../../tools/cluster/index.ts';
import { attachedVolumes } from '../../tools/cluster/volumes.ts';
import { processesMentioning, tracesOf } from './environment/host.ts';
import { signalAll } from './environment/process-state.ts';

const clusterName = 't-volumes';
const folder = join(cacheFolder(), 'clusters', clusterName);
const volumesOf = (node: string) => join(folder, node, 'volumes');
const gibibyte = 2 ** 30;

let watchdog: Watchdog;
let cluster: Cluster;

beforeAll(async () => {
  watchdog = await removeClusterOnExit(clusterName);
  await Cluster.down(clusterName);
  cluster = await Cluster.up({ name: clusterName, nodes: 2 });
});

afterAll(async () => {
  await Cluster.down(clusterName);
  await watchdog.release();
});

test('a claim grows while its pod runs, even if the driver is killed, and keeps its data after a power failure', async () => {
  await apply(database('grows', '1Gi'));
  const pod = await ready('grows-0');
  const node = pod.spec?.nodeName ?? '';
  await inside('grows-0', 'echo written before > /data/kept');
  expect(await sizeInside('grows-0')).toBe(gibibyte);

  await grow('data-grows-0', '2Gi');
  // All of its calls come again.
  await killDriver(node);
  await eventually('2Gi inside the pod', async () => (await sizeInside('grows-0')) === 2 * gibibyte, 120_000);
  const claim = await eventually('2Gi in the status', async () => {
    const found = await get<V1PersistentVolumeClaim>('pvc', 'data-grows-0');
    return found.status?.capacity?.storage === '2Gi' && found;
  });
  expect(claim.status?.conditions ?? []).toEqual([]);
  const volume = await get<V1PersistentVolume>('pv', claim.spec?.volumeName ?? '');
  expect(volume.spec?.capacity).toEqual({ storage: '2Gi' });
  expect(await inside('grows-0', 'cat /data/kept')).toBe('written before');
  // Neither it nor its container has been started again.
  const after = await get<V1Pod>('pod', 'grows-0');
  expect(after.metadata?.uid).toBe(pod.metadata?.uid);
  expect(after.status?.containerStatuses?.[0]?.containerID).toBe(pod.status?.containerStatuses?.[0]?.containerID);

  // It is on one node, and takes of its disk what is written, not what it could hold.
  expect(volume.spec?.nodeAffinity?.required?.nodeSelectorTerms).toEqual([
    { matchExpressions: [{ key: 'volumes.echoperator.test/node', operator: 'In', values: [node] }] },
  ]);
  const file = await stat(join(volumesOf(node), volume.metadata?.name ?? ''));
  expect(file.size).toBe(2 * gibibyte);
  expect(file.blocks * 512).toBeLessThan(100 * 2 ** 20);

  await cluster.killNode(node);
  expect(await attachedVolumes(volumesOf(node))).toEqual([]);
  await cluster.startNode(node);
  const again = await eventually(
    'the pod runs again',
    async () => {
      const found = await get<V1Pod>('pod', 'grows-0');
      const [container] = found.status?.containerStatuses ?? [];
      const same = container?.containerID === pod.status?.containerStatuses?.[0]?.containerID;
      return container?.state?.running !== undefined && !same && found;
    },
    120_000,
  );
  expect(again.metadata?.uid).toBe(pod.metadata?.uid);
  expect(await inside('grows-0', 'cat /data/kept')).toBe('written before');
  expect(await sizeInside('grows-0')).toBe(2 * gibibyte);
});

test('an unused claim grows too, and its next pod sees the new size', async () => {
  await apply(database('waits', '1Gi'));
  await ready('waits-0');
  await cluster.kubectl(['scale', 'statefulset/waits', '--replicas=0']);
  await cluster.kubectl(['wait', '--for=delete', 'pod/waits-0', '--timeout=60s']);
  await grow('data-waits-0', '2Gi');
  await cluster.kubectl([...['wait', '--for=condition=FileSystemResizePending', 'pvc/data-waits-0', '--timeout=60s']]);
  await cluster.kubectl(['scale', 'statefulset/waits', '--replicas=1']);
  await ready('waits-0');
  await eventually('2Gi inside the pod', async () => (await sizeInside('waits-0')) === 2 * gibibyte);
  await cluster.kubectl([
    ...['wait', '--for=jsonpath={.status.capacity.storage}=2Gi', 'pvc/data-waits-0', '--timeout=60s'],
  ]);
});

test('a claim of a class without expansion cannot grow', async () => {
  await apply(database('fixed', '1Gi', 'local-fixed'));
  await ready('fixed-0');
  await expect(grow('data-fixed-0', '2Gi')).rejects.toThrow(
    'only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize',
  );
  expect(await sizeInside('fixed-0')).toBe(gibibyte);
});

test('a claim that no node can satisfy says why', async () => {
  await apply(database('shared', '1Gi', 'local', 'ReadWriteMany'));
  const reason = 'accessModes: must be ReadWriteOnce or ReadWriteOncePod, got MULTI_NODE_MULTI_WRITER';
  await eventually('it says why', async () => {
    const fields = 'reason=ProvisioningFailed,involvedObject.name=data-shared-0';
    const events = await cluster.kubectl(['get', 'events', `--field-selector=${fields}`, '--output=json']);
    return events.includes(reason);
  });
  await remove('shared');
});

test('a deleted claim leaves nothing behind', async () => {
  await apply(database('goes', '1Gi'));
  const node = (await ready('goes-0')).spec?.nodeName ?? '';
  const volume = (await get<V1PersistentVolumeClaim>('pvc', 'data-goes-0')).spec?.volumeName ?? '';
  expect(await readdir(volumesOf(node))).toContain(volume);
  expect(await attachedVolumes(volumesOf(node))).toContain(join(volumesOf(node), volume));
  await remove('goes');
  await cluster.kubectl(['wait', '--for=delete', `pv/${volume}`, '--timeout=60s']);
  expect(await readdir(volumesOf(node))).not.toContain(volume);
  expect(await attachedVolumes(volumesOf(node))).not.toContain(join(volumesOf(node), volume));
});

describe('a cluster that is killed with volumes mounted', () => {
  const name = 't-volumes-killed';
  let own: Watchdog;

  beforeAll(async () => {
    own = await removeClusterOnExit(name);
  });

  afterAll(async () => {
    await Cluster.down(name);
    await own.release();
  });

  test('leaves nothing behind', async () => {
    const killed = await Cluster.up({ name, nodes: 1 });
    await killed.kubectl(['apply', '--filename=-'], JSON.stringify(database('killed', '1Gi')));
    await killed.kubectl(['rollout', 'status', 'statefulset/killed', '--timeout=120s']);
    expect((await tracesOf(name)).filter((trace) => trace.startsWith('loop device'))).not.toEqual([]);
    signalAll(await killed.processes(), 'SIGKILL');
    await Cluster.down(name);
    expect(await tracesOf(name)).toEqual([]);
  });
});

/** A StatefulSet of one pod, which runs as a user of its own and has a volume at /data. */
function database(name: string, storage: string, storageClassName = 'local', accessMode = 'ReadWriteOnce'): object {
  const labels = { app: name };
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name },
    spec: {
      serviceName: name,
      replicas: 1,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          terminationGracePeriodSeconds: 1,
          securityContext: { runAsUser: 1234 },
          containers: [
            {
              name: 'c',
              image: 'busybox:1.36',
              command: ['sleep', '2147483647'],
              volumeMounts: [{ name: 'data', mountPath: '/data' }],
            },
          ],
        },
      },
      volumeClaimTemplates: [
        {
          metadata: { name: 'data' },
          spec: { accessModes: [accessMode], storageClassName, resources: { requests: { storage } } },
        },
      ],
    },
  };
}

async function apply(object: object): Promise<void> {
  await cluster.kubectl(['apply', '--filename=-'], JSON.stringify(object));
}

/** Removes the StatefulSet of that name and its claim. */
async function remove(set: string): Promise<void> {
  await cluster.kubectl(['delete', `statefulset/${set}`, '--cascade=foreground']);
  await cluster.kubectl(['delete', `pvc/data-${set}-0`]);
}

async function get<T>(kind: string, name: string): Promise<T> {
  return JSON.parse(await cluster.kubectl(['get', kind, name, '--output=json'])) as T;
}

async function ready(pod: string): Promise<V1Pod> {
  await cluster.kubectl(['wait', '--for=create', `pod/${pod}`, '--timeout=60s']);
  await cluster.kubectl(['wait', '--for=condition=Ready', `pod/${pod}`, '--timeout=120s']);
  return get('pod', pod);
}

async function grow(claim: string, storage: string): Promise<void> {
  const patch = { spec: { resources: { requests: { storage } } } };
  await cluster.kubectl(['patch', `pvc/${claim}`, `--patch=${JSON.stringify(patch)}`]);
}

const inside = (pod: string, script: string): Promise<string> =>
  cluster.kubectl(['exec', pod, '--', 'sh', '-c', script]);

/** How many bytes the pod's volume has, as the pod sees it. */
async function sizeInside(pod: string): Promise<number> {
  const [, line = ''] = (await inside(pod, 'df -k /data')).split('\n');
  return Number(line.split(/\s+/)[1]) * 1024;
}

async function killDriver(node: string): Promise<void> {
  const [line = '', ...others] = await processesMentioning(`--root=${volumesOf(node)}`);
  expect(others).toEqual([]);
  signalAll([Number(line.split(' ')[0])], 'SIGKILL');
}
