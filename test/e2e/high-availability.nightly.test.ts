import { setTimeout as delay } from 'node:timers/promises';
import { findCondition } from '@echoperator/runtime';
import { CustomResourceDefinition, Pod } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { defaultTimings } from '../../packages/runtime/src/leader-election/timings.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { olderChart } from './environment/older-chart.ts';
import { hasEnded, signalAll } from './environment/process-state.ts';
import { ended, type Trial, Trials } from './environment/trials.ts';

const leaseDurationMs = defaultTimings.leaseDurationSeconds * 1000;
const retryPeriodMs = defaultTimings.retryPeriodSeconds * 1000;
/** `HA_OUTAGE_SECONDS`: longer than the chart's Lease holds. */
const outageMs = Number(process.env.HA_OUTAGE_SECONDS ?? 30) * 1000;

// Each trial waits for nodes and pods, several times.
jest.setTimeout(600_000);

let trials: Trials;

beforeAll(async () => {
  trials = await Trials.begin();
});

afterAll(() => trials?.end());

test('three replicas run on three nodes', async () => {
  await trials.replicas.settled(3);
  const nodes = (await trials.replicas.pods()).map(({ spec }) => spec?.nodeName);
  expect(nodes.sort()).toEqual(trials.cluster.nodes);
});

/** Deletes the leader's pod, and waits until another leads and the pod is gone. */
const deleteLeader: Trial['disturb'] = async (leader) => {
  await trials.deletePod(leader.pod);
  await trials.replicas.holderOtherThan(leader);
  await eventually('its pod is gone', async () => !(leader.pod in (await trials.restarts())), 60_000);
};

const markedUpgrade = () => trials.upgrade('--set', `podAnnotations.upgraded=at-${Date.now()}`);

describe('an Echo a second, printed by real pods', () => {
  /** Limits the backlog of kubelets that share slow processors. */
  const mostUnprinted = 10;

  async function unprinted(namespace: string): Promise<number> {
    await delay(200);
    const { items } = await trials.client.list(Echo, { namespace });
    return items.filter(({ status }) => findCondition(status?.conditions, 'Ready')?.status !== 'True').length;
  }

  /** Runs a trial. Verifies also that one pod prints each Echo's message. */
  async function whileEchosArePrinted(name: string, disturb: Trial['disturb']): Promise<void> {
    const isEnough = async (namespace: string) => (await unprinted(namespace)) >= mostUnprinted;
    const { namespace, echos } = await trials.run({ name, perSecond: 1, isEnough, runsPods: true, disturb });
    await eventually('all are printed', async () => (await unprinted(namespace)) === 0, 120_000);
    const { items } = await trials.client.list(Pod, { namespace });
    const logs = items.map((pod) => trials.cluster.kubectl(['logs', pod.metadata.name, '--namespace', namespace]));
    expect((await Promise.all(logs)).sort()).toEqual([...echos].sort());
  }

  test('each is printed once while the leader is deleted', () =>
    whileEchosArePrinted('printed, leader deleted', deleteLeader));

  test('each is printed once while the operator is upgraded', () =>
    whileEchosArePrinted('printed, rolling upgrade', markedUpgrade));
});

describe('20 Echos a second', () => {
  test('a leader whose pod is deleted hands over within a retry period', async () => {
    const { handovers } = await trials.run({ name: 'leader deleted', disturb: deleteLeader });
    expect(handovers).toHaveLength(1);
    expect(handovers[0]?.leaseMs).toBeLessThan(retryPeriodMs);
  });

  test('a leader that cannot reach the API server exits, and the standbys keep waiting', async () => {
    await trials.run({
      name: 'API server down',
      disturb: async (leader) => {
        const pids = await trials.processesOf(leader.pod);
        const before = await trials.restarts();
        await trials.cluster.stopProgram('apiserver');
        try {
          await delay(outageMs);
        } finally {
          await trials.cluster.startProgram('apiserver');
        }
        expect(await Promise.all(pids.map(hasEnded))).not.toContain(false);
        await trials.cluster.waitUntilApiServerReady();
        await trials.replicas.holderOtherThan(leader);
        await trials.replicas.settled(3);
        // The standbys did not restart.
        expect(await trials.restarts()).toEqual({ ...before, [leader.pod]: (before[leader.pod] ?? 0) + 1 });
      },
    });
  });

  test('while etcd answers slowly every Echo gets one Job', async () => {
    await trials.run({
      name: 'etcd slow',
      disturb: async (_, stream) => {
        const pids = await trials.cluster.programProcesses('etcd');
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
    });
  });

  test('an upgrade from an older release, with its CRD, and the rollback lose no Echo and double none', async () => {
    await using older = await olderChart();
    const newFields = async () => {
      const { spec } = await trials.client.get(CustomResourceDefinition, { name: 'echos.mmontes.io' });
      const { properties = {} } = spec.versions[0]?.schema?.openAPIV3Schema?.properties?.spec ?? {};
      return Object.keys(properties).filter((field) => field === 'ttlSecondsAfterFinished');
    };
    await trials.release.upgrade(older.flags, older.folder);
    await trials.user.kubectl(['apply', '--server-side', '--force-conflicts', `--filename=${older.crds}`]);
    expect(await newFields()).toEqual([]);
    await trials.run({
      name: 'upgrade from an older release, and rollback',
      disturb: async () => {
        await markedUpgrade();
        expect(await newFields()).toEqual(['ttlSecondsAfterFinished']);
        await trials.replicas.settled(3);
        await trials.release.rollback();
      },
    });
    await trials.upgrade();
  });

  test('high availability can be switched off and on', async () => {
    await trials.run({
      name: 'ha.enabled off and on',
      disturb: async () => {
        try {
          await trials.upgrade('--set', 'ha.enabled=false');
          await trials.replicas.settled(1);
        } finally {
          await trials.upgrade();
        }
      },
    });
  });

  test('after a leader’s node is powered off, a standby on another node leads when the Lease has expired', async () => {
    const { handovers } = await trials.run({
      name: 'node off',
      disturb: async (leader) => {
        const node = await trials.nodeOf(leader.pod);
        const { [leader.pod]: before } = await trials.restarts();
        await trials.cluster.killNode(node);
        try {
          const { pod } = await trials.replicas.holderOtherThan(leader);
          expect(await trials.nodeOf(pod)).not.toBe(node);
          await trials.nodeIs(node, 'Unknown');
        } finally {
          await trials.cluster.startNode(node);
        }
        await trials.cluster.waitUntilNodesReady();
        await trials.startedAgain(leader.pod, before);
      },
    });
    expect(handovers[0]?.leaseMs).toBeGreaterThan(leaseDurationMs);
  });

  test('a leader whose node is cut off exits before another replica leads', async () => {
    const { handovers } = await trials.run({
      name: 'node cut off',
      disturb: async (leader) => {
        const node = await trials.nodeOf(leader.pod);
        const { [leader.pod]: before } = await trials.restarts();
        const pids = await trials.processesOf(leader.pod);
        await trials.cluster.cutNetwork(node);
        try {
          await ended(pids);
          expect(await trials.replicas.holder()).toEqual(leader);
          const { pod } = await trials.replicas.holderOtherThan(leader);
          expect(await trials.nodeOf(pod)).not.toBe(node);
          await trials.nodeIs(node, 'Unknown');
        } finally {
          await trials.cluster.restoreNetwork(node);
        }
        await trials.cluster.waitUntilNodesReady();
        expect(await trials.startedAgain(leader.pod, before)).toMatchObject({ exitCode: 1 });
      },
    });
    expect(handovers[0]?.leaseMs).toBeGreaterThan(leaseDurationMs);
  });

  test('three replicas can be scaled to one and to five', async () => {
    try {
      await trials.run({
        name: 'scaled',
        to: 5,
        disturb: async (leader) => {
          // Makes the leader the first pod that is deleted.
          const annotations = { 'controller.kubernetes.io/pod-deletion-cost': '-1' };
          const key = { namespace: trials.replicas.namespace, name: leader.pod };
          await trials.client.patch(Pod, key, { type: 'merge', body: { metadata: { annotations } } });
          await trials.upgrade('--set', 'ha.replicaCount=1');
          expect((await trials.replicas.settled(1)).metadata.name).not.toBe(leader.pod);
          await trials.upgrade('--set', 'ha.replicaCount=5');
        },
      });
    } finally {
      await trials.upgrade();
    }
  });

  test('all replicas recover after they are killed at once', async () => {
    // The kubelets restart new containers without a backoff.
    await markedUpgrade();
    await trials.run({
      name: 'all killed',
      disturb: async () => {
        const pods = await trials.replicas.pods();
        const pids = await Promise.all(pods.map(({ metadata }) => trials.processesOf(metadata.name)));
        signalAll(pids.flat(), 'SIGKILL');
        for (const { metadata } of pods)
          expect(await trials.startedAgain(metadata.name)).toMatchObject({ exitCode: 137 });
      },
    });
  });
});
