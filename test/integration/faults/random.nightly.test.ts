import type { ReflectorOptions } from '@echoperator/runtime/cache';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { FaultProxy } from '@echoperator/testing';
import { afterAll, beforeAll, test } from '@jest/globals';
import { nightlyPlan, runAtRandom } from '../../../testkit/random-runs.ts';
import { TestCluster } from '../../../testkit/test-cluster.ts';
import { steps, take, watchTimeoutSeconds } from './environment/random-faults.ts';
import { SubjectProcess } from './environment/subject-process.ts';
import { World } from './environment/world.ts';

/** `FAULTS_MINUTES` is how long each of the two tests takes; `FAULTS_SEED` repeats a run. */
const plan = nightlyPlan('FAULTS');

let cluster: TestCluster;
let proxy: FaultProxy;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  proxy = await FaultProxy.start({ upstream: await kubeconfigConnection(cluster.kubeconfig) });
});

afterAll(async () => {
  await proxy?.close();
  await cluster?.close();
});

test.each<ReflectorOptions>([
  { listing: 'streamed', watchTimeoutSeconds },
  { listing: 'paged', watchTimeoutSeconds },
])(
  'after random faults, the store equals the cluster and all changes are reconciled ($listing lists)',
  async (watching) => {
    const world = new World(cluster.client, await cluster.namespace());
    await world.populate();
    const { server, tls } = proxy.connection;
    await using subject = await SubjectProcess.start({
      server: server.href,
      tls,
      namespace: world.namespace,
      watching,
    });
    await world.converge(subject);
    await runAtRandom(plan, steps, async (sequence) => {
      const heapBefore = await subject.ask('heap');
      let faults = 0;
      for (const count of (await take(sequence, { proxy, world })).values()) faults += count;
      await world.converge(subject);
      await world.heapIsAsBefore(subject, heapBefore);
      // Each step changes Echos.
      return { writes: sequence.length, faults };
    });
  },
  plan.timeLimitMs + 500_000,
);
