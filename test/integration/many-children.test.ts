import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { PodSet, ScheduledEcho } from '../../src/api/index.ts';
import { CronJob, Pod } from '../../src/controllers/built-in-kinds.ts';
import type { Kind, KubeObject, Manifest } from '../../src/runtime/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import { operatorWrites } from '../../testkit/operator-writes.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { customManifest } from '../../testkit/with-reason.ts';

/** `CHILDREN` is of how many objects each kind has. */
const count = Number(process.env.CHILDREN ?? 100);
const timeLimitMs = 60_000 + count * 600;
const podsEach = 3;

/** Often enough to see some, seldom enough to end one before the next. */
const resyncSeconds = 2 + count / 100;
const resyncs = 2;

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await TestCluster.connect();
});

afterAll(() => cluster?.close(timeLimitMs), 2 * timeLimitMs);

/** Creates them sixteen at a time. */
async function create<T extends KubeObject>(kind: Kind<T>, manifest: (name: string) => Manifest<T>): Promise<void> {
  const names = Array.from({ length: count }, (_, index) => `many-${index}`);
  const writer = async () => {
    for (let name = names.shift(); name !== undefined; name = names.shift()) {
      await cluster.client.create(kind, manifest(name));
    }
  };
  await Promise.all(Array.from({ length: 16 }, writer));
}

/** How many reconciles have succeeded. */
async function reconciled(operator: OperatorProcess, controller: string): Promise<number> {
  const line = new RegExp(
    `^controller_runtime_reconcile_total\\{controller="${controller}",result="success"\\} (\\d+)$`,
    'm',
  );
  return Number(line.exec(await operator.metrics())?.[1] ?? 0);
}

test(
  `${count} PodSets of ${podsEach} and ${count} ScheduledEchos converge; then neither a restart nor a resync sends a write`,
  async () => {
    const namespace = await cluster.namespace();
    const first = await OperatorProcess.start(cluster.kubeconfig);
    try {
      const startedAtMs = performance.now();
      await Promise.all([
        create(PodSet, (name) => customManifest({ name, namespace }, { replicas: podsEach })),
        create(ScheduledEcho, (name) => customManifest({ name, namespace }, { message: name, schedule: '@yearly' })),
      ]);
      await eventually(
        'all tell of their pods',
        async () => {
          const { items } = await cluster.client.list(PodSet, { namespace });
          return items.every(({ status }) => status?.podNames?.length === podsEach);
        },
        timeLimitMs,
      );
      await eventually(
        'all are scheduled',
        async () => {
          const { items } = await cluster.client.list(ScheduledEcho, { namespace });
          return items.every(({ status }) => status?.cronJobName !== undefined);
        },
        timeLimitMs,
      );
      const seconds = (performance.now() - startedAtMs) / 1000;
      process.stdout.write(
        `${count} PodSets of ${podsEach} and ${count} ScheduledEchos after ${seconds.toFixed(1)} s\n`,
      );
      expect((await cluster.client.list(Pod, { namespace })).items).toHaveLength(podsEach * count);
      expect((await cluster.client.list(CronJob, { namespace })).items).toHaveLength(count);
    } finally {
      // It ends with its Events.
      await first.stop();
    }
    const before = await operatorWrites(cluster.auditLog, namespace);

    const second = await OperatorProcess.start(cluster.kubeconfig, { RESYNC_SECONDS: String(resyncSeconds) });
    try {
      for (const controller of ['podset', 'scheduledecho']) {
        const look = async () => (await reconciled(second, controller)) >= (1 + resyncs) * count;
        await eventually(
          `each ${controller} was reconciled after the start, and in ${resyncs} resyncs`,
          look,
          timeLimitMs,
        );
      }
    } finally {
      await second.stop();
    }
    expect(await operatorWrites(cluster.auditLog, namespace)).toEqual(before);
  },
  4 * timeLimitMs,
);
