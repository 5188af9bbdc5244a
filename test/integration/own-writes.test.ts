import { done, keyOf, Manager } from '@echoperator/runtime';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { Metrics } from '@echoperator/runtime/process';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import { HttpClient } from '../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../packages/runtime/src/client/transport.ts';
import { forEachConcurrently } from '../../packages/testing/src/for-each-concurrently.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { echoManifest } from '../../testkit/echos.ts';
import { eventually } from '../../testkit/eventually.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';

const names = Array.from({ length: 20 }, (_, index) => `echo-${index}`);

let cluster: TestCluster;
let namespace: string;
let transport: Transport;
let stop: AbortController;
let running: Promise<void> | undefined;

beforeAll(async () => {
  cluster = await TestCluster.connect();
});
beforeEach(async () => {
  namespace = await cluster.namespace();
  transport = new Transport(await kubeconfigConnection(cluster.kubeconfig), { userAgent: 'stamper/1' });
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort();
  await running;
  await transport.close();
});
afterAll(() => cluster?.close());

test('a controller without a predicate whose status carries a time stamp reconciles each object once, and corrects a status once', async () => {
  await forEachConcurrently(
    names,
    async (name) => void (await cluster.client.create(Echo, echoManifest({ name, namespace }, { message: 'hello' }))),
    4,
  );
  const manager = new Manager({
    client: new HttpClient(transport, 'stamper'),
    log: new RecordingLog(),
    metrics: new Metrics(new Registry()),
  });
  const informer = manager.informer(Echo, { namespaces: [namespace] });
  let reconciles = 0;
  manager.controller(Echo, {
    reconcile: async (key, { client }) => {
      reconciles += 1;
      const { resourceVersion = '' } = informer.store.get(key)?.metadata ?? {};
      const startTime = new Date().toISOString();
      await client.mergeStatus(Echo, { ...key, resourceVersion }, { phase: 'Running', startTime });
      return done;
    },
  });
  running = manager.run(stop.signal);
  /**
   * The watch has delivered all that was written before, and no key is left to reconcile: that of a later object has
   * been.
   */
  const settled = async (name: string): Promise<void> => {
    const marker = await cluster.client.create(Echo, echoManifest({ name, namespace }, { message: 'marker' }));
    const isStamped = () => informer.store.get(keyOf(marker))?.status?.startTime !== undefined;
    await eventually('the marker', async () => informer.hasReached(marker.metadata.resourceVersion) && isStamped());
  };
  await eventually('all are stamped', async () =>
    names.every((name) => informer.store.get({ name, namespace })?.status?.startTime !== undefined),
  );
  await settled('first-marker');
  // The event of a status often overtakes its response.
  expect(reconciles).toBe(names.length + 1);

  const key = { name: 'echo-7', namespace };
  const live = await cluster.client.get(Echo, key);
  const edited = await cluster.client.mergeStatus(
    Echo,
    { ...key, resourceVersion: live.metadata.resourceVersion },
    { phase: 'Failed' },
  );
  expect(edited.status?.phase).toBe('Failed');
  await eventually(
    'the status is corrected',
    async () => (await cluster.client.get(Echo, key)).status?.phase === 'Running',
  );
  await settled('second-marker');
  expect(reconciles).toBe(names.length + 3);
});
