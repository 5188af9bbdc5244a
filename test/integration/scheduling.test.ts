import { type Client, Manager, predicates, requeueAfter } from '@echoperator/runtime';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { Metrics } from '@echoperator/runtime/process';
import { FaultProxy, isWatch } from '@echoperator/testing';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import { HttpClient } from '../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../packages/runtime/src/client/transport.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { echoManifest } from '../../testkit/echos.ts';
import { eventually } from '../../testkit/eventually.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';

const requeueMs = 200;
const requeues = 10;

let cluster: TestCluster;
let namespace: string;
let stop: AbortController;
let running: Promise<void>;

beforeAll(async () => {
  cluster = await TestCluster.connect();
});
beforeEach(async () => {
  namespace = await cluster.namespace();
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort();
  await running;
});
afterAll(() => cluster?.close());

/**
 * An operator that reports in the status when it has last looked, and looks again after a while.
 *
 * @returns when each reconcile began and ended, as milliseconds of `performance.now`.
 */
function startHeartbeat(client: Client, log: RecordingLog): { readonly beganMs: number; readonly endedMs: number }[] {
  const reconciles: { beganMs: number; endedMs: number }[] = [];
  const manager = new Manager({ client, log, metrics: new Metrics(new Registry()) });
  const { store } = manager.informer(Echo, { namespaces: [namespace] });
  manager.controller(Echo, {
    predicate: predicates.generationChanged,
    reconcile: async (key, context) => {
      const beganMs = performance.now();
      const echo = store.get(key);
      expect(echo).toBeDefined();
      const { resourceVersion = '' } = echo?.metadata ?? {};
      await context.client.mergeStatus(Echo, { ...key, resourceVersion }, { startTime: new Date().toISOString() });
      reconciles.push({ beganMs, endedMs: performance.now() });
      return requeueAfter(requeueMs);
    },
  });
  running = manager.run(stop.signal);
  return reconciles;
}

async function expectOneReconcilePerRequeue(client: Client): Promise<void> {
  await cluster.client.create(Echo, echoManifest({ name: 'heart', namespace }, { message: 'beat' }));
  const log = new RecordingLog();
  const reconciles = startHeartbeat(client, log);
  await eventually('it has been requeued often enough', async () => reconciles.length > requeues);
  // A pause that is too short is a reconcile that no requeue caused. Timers count whole milliseconds.
  const pausesMs = reconciles.slice(1).map(({ beganMs }, index) => beganMs - (reconciles[index]?.endedMs ?? 0));
  expect(pausesMs.filter((pauseMs) => pauseMs < requeueMs - 1)).toEqual([]);
  // The queue retries a reconcile whose assertion fails, so the failure is only in the log.
  expect(log.messages('error')).toEqual([]);
}

test('a status write that the predicate rejects causes no reconcile', async () => {
  await expectOneReconcilePerRequeue(cluster.client);
});

test('a status write whose event arrives after its reply causes no reconcile', async () => {
  await using proxy = await FaultProxy.start({ upstream: await kubeconfigConnection(cluster.kubeconfig) });
  const transport = new Transport(proxy.connection, { userAgent: 'test' });
  try {
    // An event of an Echo takes about a tenth of a second.
    const slow = proxy.inject({ type: 'slow', bytesPerSecond: 8_000 }, { on: isWatch });
    await expectOneReconcilePerRequeue(new HttpClient(transport, 'test'));
    expect(slow.count).toBeGreaterThan(0);
    stop.abort();
    await running;
  } finally {
    await transport.close();
  }
});
