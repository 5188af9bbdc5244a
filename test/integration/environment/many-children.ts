import { findCondition } from '@echoperator/runtime';
import { CronJob, Pod } from '@echoperator/runtime/kinds';
import { expect } from '@jest/globals';
import { forEachConcurrently } from '../../../packages/testing/src/for-each-concurrently.ts';
import { PodSet } from '../../../src/kinds/pod-set/kind.ts';
import { ScheduledEcho } from '../../../src/kinds/scheduled-echo/kind.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { OperatorProcess } from '../../../testkit/operator-process.ts';
import { operatorWrites } from '../../../testkit/operator-writes.ts';
import type { TestCluster } from '../../../testkit/test-cluster.ts';
import { customManifest } from '../../../testkit/with-reason.ts';

const podsEach = 3;
const resyncs = 2;

/** An upper bound for the time of each step, in milliseconds. */
export const timeLimitMs = (count: number): number => 60_000 + count * 600;

/** Returns the number of successful reconciles. */
async function reconciled(operator: OperatorProcess, controller: string): Promise<number> {
  const line = new RegExp(
    `^controller_runtime_reconcile_total\\{controller="${controller}",result="success"\\} (\\d+)$`,
    'm',
  );
  return Number(line.exec(await operator.metrics())?.[1] ?? 0);
}

/** Creates PodSets with three pods each and ScheduledEchos, then restarts the operator and lets it resync. */
export async function expectNoWriteAtRest(cluster: TestCluster, count: number): Promise<void> {
  const limitMs = timeLimitMs(count);
  const namespace = await cluster.namespace();
  const first = await OperatorProcess.start(cluster.kubeconfig);
  try {
    const startedAtMs = performance.now();
    const names = Array.from({ length: count }, (_, index) => `many-${index}`);
    await forEachConcurrently(names, async (name) => {
      await cluster.client.create(PodSet, customManifest({ name, namespace }, { replicas: podsEach }));
      await cluster.client.create(
        ScheduledEcho,
        customManifest({ name, namespace }, { message: name, schedule: '@yearly' }),
      );
    });
    await eventually(
      'all tell of their pods',
      async () => {
        const { items } = await cluster.client.list(PodSet, { namespace });
        return items.every(({ status }) => status?.podNames?.length === podsEach);
      },
      limitMs,
    );
    await eventually(
      'all are scheduled',
      async () => {
        const { items } = await cluster.client.list(ScheduledEcho, { namespace });
        return items.every(({ status }) => status?.cronJobName !== undefined);
      },
      limitMs,
    );
    // A PodSet whose pods are Pending for a minute says so.
    const { items: pods } = await cluster.client.list(Pod, { namespace });
    const ready = { type: 'Ready', status: 'True', lastTransitionTime: new Date().toISOString() };
    await forEachConcurrently(pods, ({ metadata }) =>
      cluster.client.mergeStatus(Pod, metadata, { phase: 'Running', conditions: [ready] }),
    );
    await eventually(
      'all pods are ready',
      async () => {
        const { items } = await cluster.client.list(PodSet, { namespace });
        return items.every(({ status }) => findCondition(status?.conditions, 'Ready')?.status === 'True');
      },
      limitMs,
    );
    const seconds = (performance.now() - startedAtMs) / 1000;
    process.stdout.write(`${count} PodSets of ${podsEach} and ${count} ScheduledEchos after ${seconds.toFixed(1)} s\n`);
    expect((await cluster.client.list(Pod, { namespace })).items).toHaveLength(podsEach * count);
    expect((await cluster.client.list(CronJob, { namespace })).items).toHaveLength(count);
  } finally {
    // The operator sends its last Events when it stops.
    await first.stop();
  }
  const before = await operatorWrites(cluster.auditLog, namespace);

  // Frequent enough for several resyncs, and rare enough that each ends before the next.
  const resyncSeconds = 1 + count / 50;
  const second = await OperatorProcess.start(cluster.kubeconfig, { RESYNC_SECONDS: String(resyncSeconds) });
  try {
    for (const controller of ['podset', 'scheduledecho']) {
      const look = async () => (await reconciled(second, controller)) >= (1 + resyncs) * count;
      await eventually(`each ${controller} was reconciled after the start, and in ${resyncs} resyncs`, look, limitMs);
    }
  } finally {
    await second.stop();
  }
  expect(await operatorWrites(cluster.auditLog, namespace)).toEqual(before);
}
