import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { V1Pod } from '@kubernetes/client-node';
import { Echo } from '../../src/api/index.ts';
import { Job } from '../../src/controllers/built-in-kinds.ts';
import { builtInKind, findCondition } from '../../src/runtime/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import { EchoStream, type EchoStreamOptions } from './environment/echo-stream.ts';
import { OwnCluster } from './environment/own-cluster.ts';
import { effective, jobCreations, longestGapMs, podWrites, turns } from './environment/pod-writes.ts';
import { hasEnded, processState, signalAll } from './environment/process-state.ts';
import { Release } from './environment/release.ts';
import { containerOf, type Holder, Replicas } from './environment/replicas.ts';

/** Longer than the chart's Lease holds, which is 15 s. `E2E_LONG=1`: longer still. */
const outageMs = process.env.E2E_LONG === undefined ? 18_000 : 30_000;

/** As the chart has it, but that a pod counts as ready soon after it is. */
const values = ['--set', 'readinessProbe.periodSeconds=1'];
/** Without the job controller the Jobs of the chart's hooks would never end. */
const withoutHook = ['--set', 'crds.upgradeJob.enabled=false,uninstallCheck.enabled=false'];

const Pod = builtInKind<V1Pod>({ group: '', version: 'v1', kind: 'Pod', plural: 'pods' });

// Each trial waits for nodes and pods, several times.
jest.setTimeout(600_000);

let own: OwnCluster;
let release: Release | undefined;
let replicas: Replicas;

beforeAll(async () => {
  own = await OwnCluster.up({ name: 'e2e-ha', nodes: 3 });
  release = await Release.install(own.user, values);
  replicas = replicasOf(release, 'echoperator', 2112, '/metrics');
  await replicas.settled(3);
});

afterAll(() => own?.down());

const replicasOf = ({ namespace }: Release, fullName: string, port: number, path: string) =>
  new Replicas({ client: own.client, transport: own.transport, namespace, fullName, metrics: { port, path } });

/** What is done to the operator while Echos come. */
interface Trial {
  /** The namespace of its Echos. */
  readonly name: string;
  readonly perSecond: number;
  /** As the stream has it. */
  readonly isEnough?: EchoStreamOptions['isEnough'];
  /** How many replicas there are before. */
  readonly from: number;
  /** And after. Default: as many. */
  readonly to?: number;
  /** @param leader who led when the trial began */
  readonly disturb: (leader: Holder, stream: EchoStream) => Promise<void>;
}

/**
 * Lets Echos come while the operator is disturbed. In the end each has its Job, none has had two, and one replica leads.
 * Says how long no Job was made.
 *
 * @returns the names of the Echos
 */
async function whileEchosCome(trial: Trial): Promise<readonly string[]> {
  const { name, perSecond, isEnough, from, to = from, disturb } = trial;
  await replicas.settled(from);
  const namespace = await own.namespace(name);
  await using stream = EchoStream.start({ client: own.client, namespace, perSecond, ...(isEnough && { isEnough }) });
  await eventually('Jobs are being made', async () => (await jobNames(namespace)).size >= 3, 60_000);
  const leader = await replicas.holder();
  const sinceMs = Date.now();
  await disturb(leader, stream);
  await replicas.settled(to);
  const echos = await stream.stop();
  await eventually('every Echo has its Job', async () => isSuperset(await jobNames(namespace), echos), 120_000);
  const { transitions } = await replicas.holder();

  const writes = await podWrites(own.user.auditLog, namespace);
  const creations = jobCreations(writes);
  const seconds = (longestGapMs(creations, sinceMs) / 1000).toFixed(2);
  const took = ((Date.now() - sinceMs) / 1000).toFixed(0);
  const by = turns(creations).join(', ');
  process.stdout.write(
    `${name}: no Job for ${seconds} s at the longest; ${echos.length} Echos in ${took} s, by ${by}\n`,
  );
  const made = creations.map((creation) => creation.name);
  expect(made.filter((job, i) => made.indexOf(job) < i)).toEqual([]);
  // One that was deleted might have been made a second time.
  expect(writes.filter(({ verb, resource }) => verb.startsWith('delete') && resource === 'jobs')).toEqual([]);
  // Whoever has written something writes no more after the next one, unless it was elected again.
  expect(turns(effective(writes)).length - 1).toBeLessThanOrEqual(transitions - leader.transitions);
  return echos;
}

async function jobNames(namespace: string): Promise<ReadonlySet<string>> {
  await delay(200);
  const { items } = await own.client.listMetadata(Job, { namespace });
  return new Set(items.map(({ metadata }) => metadata.name));
}

const isSuperset = (names: ReadonlySet<string>, wanted: readonly string[]) => wanted.every((name) => names.has(name));

const nodeOf = async (pod: string): Promise<string> => (await replicas.pod(pod)).spec?.nodeName ?? '';

const processesOf = async (pod: string): Promise<readonly number[]> => {
  const pids = await own.cluster.containerProcesses(containerOf(await replicas.pod(pod)).containerID ?? '');
  expect(pids).not.toEqual([]);
  return pids;
};

/** Waits until a pod's container has been started again, and returns what the kubelet says of its end. */
const startedAgain = (pod: string, times = 1) =>
  eventually(
    `the container of ${pod} is started again`,
    async () => {
      const { restartCount, lastState } = containerOf(await replicas.pod(pod));
      return restartCount >= times && lastState?.terminated;
    },
    90_000,
  );

/** How often each pod's container was started again, by the pod's name. */
const restarts = async (): Promise<Readonly<Record<string, number>>> =>
  Object.fromEntries((await replicas.pods()).map((pod) => [pod.metadata.name, containerOf(pod).restartCount]));

const ended = (pids: readonly number[]) =>
  eventually('the processes have ended', async () => (await Promise.all(pids.map(hasEnded))).every(Boolean), 90_000);

const nodeIs = (node: string, ready: 'True' | 'Unknown') =>
  own.cluster.kubectl(['wait', `--for=condition=Ready=${ready}`, `node/${node}`, '--timeout=90s']);

const deletePod = (pod: string) => own.client.delete(Pod, { namespace: replicas.namespace, name: pod });

const upgrade = async (...flags: readonly string[]) => release?.upgrade([...values, ...withoutHook, ...flags]);

test('three replicas are on three nodes', async () => {
  const nodes = (await replicas.pods()).map(({ spec }) => spec?.nodeName);
  expect(nodes.sort()).toEqual(own.cluster.nodes);
});

describe('an Echo a second, printed by real pods', () => {
  /** Kubelets that share a slow processor would fall ever further behind. */
  const mostUnprinted = 10;

  /** As above; and each Echo's message is printed, by one pod. */
  async function whileEchosArePrinted(name: string, disturb: Trial['disturb']): Promise<void> {
    const isEnough = async () => (await unprinted(name)) >= mostUnprinted;
    const echos = await whileEchosCome({ name, perSecond: 1, isEnough, from: 3, disturb });
    await eventually('all are printed', async () => (await unprinted(name)) === 0, 120_000);
    const { items } = await own.client.list(Pod, { namespace: name });
    const logs = items.map((pod) => own.cluster.kubectl(['logs', pod.metadata.name, '--namespace', name]));
    expect((await Promise.all(logs)).sort()).toEqual([...echos].sort());
  }

  async function unprinted(namespace: string): Promise<number> {
    await delay(200);
    const { items } = await own.client.list(Echo, { namespace });
    return items.filter(({ status }) => findCondition(status?.conditions, 'Ready')?.status !== 'True').length;
  }

  test('leader deleted', () =>
    whileEchosArePrinted('printed-deleted', async (leader) => {
      await deletePod(leader.pod);
      await replicas.holderOtherThan(leader);
    }));

  test('rolling upgrade', () =>
    whileEchosArePrinted('printed-upgraded', async () => {
      await release?.upgrade([...values, '--set', 'podAnnotations.upgraded=first']);
    }));
});

describe('20 Echos a second', () => {
  const perSecond = 20;

  beforeAll(async () => {
    // There are Jobs and no pods: so many could not run here.
    await own.cluster.stopProgram('controller-manager');
    await own.cluster.startProgram('controller-manager', ['--controllers=*,-job']);
  });

  test('leader deleted', () =>
    whileEchosCome({
      name: 'leader-deleted',
      perSecond,
      from: 3,
      disturb: async (leader) => {
        await deletePod(leader.pod);
        await replicas.holderOtherThan(leader);
        await eventually('its pod is gone', async () => !(leader.pod in (await restarts())), 60_000);
      },
    }));

  test("leader's container killed", () =>
    whileEchosCome({
      name: 'container-killed',
      perSecond,
      from: 3,
      disturb: async (leader) => {
        signalAll(await processesOf(leader.pod), 'SIGKILL');
        await replicas.holderOtherThan(leader);
        expect(await startedAgain(leader.pod)).toMatchObject({ exitCode: 137 });
      },
    }));

  test('rolling upgrade', async () => {
    const before = await restarts();
    await whileEchosCome({
      name: 'rolling-upgrade',
      perSecond,
      from: 3,
      disturb: () => upgrade('--set', 'podAnnotations.upgraded=second'),
    });
    const after = await replicas.pods();
    expect(after.filter(({ metadata }) => metadata.name in before)).toEqual([]);
    expect(after.map(({ metadata }) => metadata.annotations?.upgraded)).toEqual(['second', 'second', 'second']);
  });

  test('leader frozen and woken', async () => {
    let frozen = '';
    let wokenAt = '';
    await whileEchosCome({
      name: 'leader-frozen',
      perSecond,
      from: 3,
      disturb: async (leader) => {
        frozen = leader.pod;
        const pids = await processesOf(frozen);
        const enough = delay(outageMs);
        signalAll(pids, 'SIGSTOP');
        try {
          await eventually('it is frozen', async () =>
            (await Promise.all(pids.map(processState))).every((state) => state === 'T'),
          );
          await replicas.holderOtherThan(leader);
          await enough;
        } finally {
          wokenAt = new Date().toISOString();
          signalAll(pids, 'SIGCONT');
        }
        await startedAgain(frozen);
      },
    });
    const writes = await podWrites(own.user.auditLog, 'leader-frozen');
    expect(writes.filter(({ pod, received }) => pod === frozen && received >= wokenAt)).toEqual([]);
  });

  test('API server down', () =>
    whileEchosCome({
      name: 'api-server-down',
      perSecond,
      from: 3,
      disturb: async (leader) => {
        const pids = await processesOf(leader.pod);
        const before = await restarts();
        await own.cluster.stopProgram('apiserver');
        try {
          await delay(outageMs);
        } finally {
          await own.cluster.startProgram('apiserver');
        }
        expect(await Promise.all(pids.map(hasEnded))).not.toContain(false);
        await own.cluster.apiServerReady();
        await replicas.holderOtherThan(leader);
        await replicas.settled(3);
        // Those that did not lead have waited for it.
        expect(await restarts()).toEqual({ ...before, [leader.pod]: (before[leader.pod] ?? 0) + 1 });
      },
    }));

  test('etcd slow', () =>
    whileEchosCome({
      name: 'etcd-slow',
      perSecond,
      from: 3,
      disturb: async (_, stream) => {
        const pids = await own.cluster.programProcesses('etcd');
        const untilMs = performance.now() + outageMs;
        try {
          while (performance.now() < untilMs) {
            signalAll(pids, 'SIGSTOP');
            await delay(800);
            signalAll(pids, 'SIGCONT');
            await delay(200);
          }
        } finally {
          signalAll(pids, 'SIGCONT');
        }
        expect(stream.slowestMs).toBeGreaterThan(500);
      },
    }));

  test('high availability switched off and on', () =>
    whileEchosCome({
      name: 'ha-toggled',
      perSecond,
      from: 3,
      disturb: async () => {
        await upgrade('--set', 'ha.enabled=false');
        await replicas.settled(1);
        await upgrade();
      },
    }));

  test("leader's node powered off", () =>
    whileEchosCome({
      name: 'node-off',
      perSecond,
      from: 3,
      disturb: async (leader) => {
        const node = await nodeOf(leader.pod);
        const { [leader.pod]: before = 0 } = await restarts();
        await own.cluster.killNode(node);
        try {
          const { pod } = await replicas.holderOtherThan(leader);
          expect(await nodeOf(pod)).not.toBe(node);
          await nodeIs(node, 'Unknown');
        } finally {
          await own.cluster.startNode(node);
        }
        await own.cluster.nodesReady();
        await startedAgain(leader.pod, before + 1);
      },
    }));

  test("leader's node cut off from the API server and joined again", () =>
    whileEchosCome({
      name: 'node-cut-off',
      perSecond,
      from: 3,
      disturb: async (leader) => {
        const node = await nodeOf(leader.pod);
        const { [leader.pod]: before = 0 } = await restarts();
        const pids = await processesOf(leader.pod);
        await own.cluster.cutNetwork(node);
        try {
          // It has ended by itself, before another could lead.
          await ended(pids);
          expect(await replicas.holder()).toEqual(leader);
          const { pod } = await replicas.holderOtherThan(leader);
          expect(await nodeOf(pod)).not.toBe(node);
          await nodeIs(node, 'Unknown');
        } finally {
          await own.cluster.restoreNetwork(node);
        }
        await own.cluster.nodesReady();
        expect(await startedAgain(leader.pod, before + 1)).toMatchObject({ exitCode: 1 });
      },
    }));

  test('scaled from three to one and to five', () =>
    whileEchosCome({
      name: 'scaled',
      perSecond,
      from: 3,
      to: 5,
      disturb: async (leader) => {
        // So that it is the first to go.
        const annotations = { 'controller.kubernetes.io/pod-deletion-cost': '-1' };
        const key = { namespace: replicas.namespace, name: leader.pod };
        await own.client.patch(Pod, key, { type: 'merge', body: { metadata: { annotations } } });
        await upgrade('--set', 'ha.replicaCount=1');
        expect((await replicas.settled(1)).metadata.name).not.toBe(leader.pod);
        await upgrade('--set', 'ha.replicaCount=5');
      },
    }));

  test("the original chart's own values, and its leader deleted", async () => {
    // Of whatever release there is: one whose hook would wait for a Job can't be uninstalled here.
    await upgrade();
    await release?.uninstall();
    // The file's image comes from a registry that is not here.
    const image = 'image.repository=ghcr.io/echoperator/echoperator,image.pullPolicy=IfNotPresent';
    const file = join(import.meta.dirname, '../chart/original-values.yaml');
    release = await Release.install(own.user, ['--values', file, '--set', image, ...values, ...withoutHook]);
    replicas = replicasOf(release, 'echoes', 9090, '/prometheus');
    await whileEchosCome({
      name: 'original-values',
      perSecond,
      from: 5,
      disturb: async (leader) => {
        await deletePod(leader.pod);
        await replicas.holderOtherThan(leader);
      },
    });
  });

  // The last one: their containers were never started again before, so the kubelets start them at once.
  test('all replicas killed at once', () =>
    whileEchosCome({
      name: 'all-killed',
      perSecond,
      from: 5,
      disturb: async () => {
        const pods = await replicas.pods();
        const pids = await Promise.all(pods.map(({ metadata }) => processesOf(metadata.name)));
        signalAll(pids.flat(), 'SIGKILL');
        for (const { metadata } of pods) expect(await startedAgain(metadata.name)).toMatchObject({ exitCode: 137 });
      },
    }));
});
