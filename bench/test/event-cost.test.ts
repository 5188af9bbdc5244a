import { Applier, EventRecorder, Manager } from '@echoperator/runtime';
import { Metrics } from '@echoperator/runtime/process';
import { afterEach, expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import { HttpClient } from '../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../packages/runtime/src/client/transport.ts';
import { echoController } from '../../src/kinds/echo/controller.ts';
import { podSettings } from '../../testkit/pod-settings.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { ScriptedCluster } from '../event-cost/scripted-cluster.ts';

const cleanUps: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

test('the operator handles all changes of Echos that need no write, without a request', async () => {
  const cluster = await ScriptedCluster.start(600);
  cleanUps.push(() => cluster.stop());
  const [
    {
      cluster: { server },
    },
  ] = (JSON.parse(cluster.kubeconfig) as { clusters: [{ cluster: { server: string } }] }).clusters;
  const transport = new Transport(
    { server: new URL(server), tls: {}, authentication: async () => ({}) },
    { userAgent: 'test' },
  );
  cleanUps.push(() => transport.close());
  const log = new RecordingLog();
  const client = new HttpClient(transport, 'test');
  const events = new EventRecorder({ client, controller: 'mmontes.io/test', instance: 'test', log });
  const metrics = new Metrics(new Registry());
  const manager = new Manager({ client, log, metrics });
  const applier = new Applier({ fieldManager: 'test' });
  echoController(podSettings).add({ manager, applier, events, metrics }, { workers: 4, resyncEveryMs: 600_000 });
  const stop = new AbortController();
  const running = manager.run(stop.signal);
  cleanUps.push(async () => {
    stop.abort();
    await running;
  });

  await cluster.change(500, AbortSignal.timeout(20_000));
  await cluster.change(500, AbortSignal.timeout(20_000));
  expect(cluster.needlessWrites).toEqual([]);
  expect(log.messages('error')).toEqual([]);
});
