import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { kubeconfigConnection } from '../../../src/runtime/index.ts';
import { FaultProxy } from '../../../src/runtime/testing/index.ts';
import { TestCluster } from '../../../testkit/test-cluster.ts';
import { steps, take, watching } from './environment/random-faults.ts';
import { SubjectProcess } from './environment/subject-process.ts';
import { World } from './environment/world.ts';

/** `FAULTS_SEED` repeats a run; `FAULTS_MINUTES` makes it a long one. */
const { FAULTS_SEED, FAULTS_MINUTES } = process.env;
const seed = FAULTS_SEED === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(FAULTS_SEED);
const timeLimitMs = FAULTS_MINUTES === undefined ? 30_000 : Number(FAULTS_MINUTES) * 60_000;

let cluster: TestCluster;
let proxy: FaultProxy;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  proxy = await FaultProxy.start({ upstream: await kubeconfigConnection(cluster.kubeconfig) });
});

afterAll(async () => {
  await proxy.close();
  await cluster.close();
});

test(
  'whatever happens, in the end the store is what the cluster is, and all changes are reconciled',
  async () => {
    const [how] = fc.sample(watching, { seed, numRuns: 1 });
    console.log(`faults at random: FAULTS_SEED=${seed} (${JSON.stringify(how)})`);
    const world = new World(cluster.client, await cluster.namespace());
    await world.populate();
    const { server, tls } = proxy.connection;
    await using subject = await SubjectProcess.start({
      server: server.href,
      tls,
      namespace: world.namespace,
      watching: how!,
    });
    await world.converge(subject);
    let happened = 0;
    const survives = fc.asyncProperty(steps, async (sequence) => {
      const heapBefore = await subject.ask('heap');
      for (const count of (await take(sequence, { proxy, world })).values()) happened += count;
      await world.converge(subject);
      await world.heapIsAsBefore(subject, heapBefore);
    });
    // The cluster goes on from run to run: a shorter sequence would not begin where the failed one did.
    await fc.assert(survives, {
      seed,
      numRuns: FAULTS_MINUTES === undefined ? 10 : 100_000,
      interruptAfterTimeLimit: timeLimitMs,
      markInterruptAsFailure: false,
      endOnFailure: true,
    });
    expect(happened).toBeGreaterThan(0);
  },
  timeLimitMs + 120_000,
);
