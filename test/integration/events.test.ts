import { EventRecorder } from '@echoperator/runtime';
import { Event } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { echoManifest } from '../../testkit/echos.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await TestCluster.connect();
});
afterAll(() => cluster?.close());

test('the API server accepts an Event and its series', async () => {
  const namespace = await cluster.namespace();
  const echo = await cluster.client.create(Echo, echoManifest({ name: 'a', namespace }, { message: 'hello' }));
  const log = new RecordingLog();
  const events = new EventRecorder({ client: cluster.client, controller: 'test.example/test', instance: 'a', log });
  const record = () => events.record(Echo, echo, { type: 'Normal', reason: 'Tested', action: 'Test', note: 'again' });
  const series = async () => {
    await events.flush(30_000);
    const { items } = await cluster.client.list(Event, { namespace, fieldSelector: 'reason=Tested' });
    return items.map((event) => event.series?.count);
  };
  record();
  expect(await series()).toEqual([undefined]);
  record();
  expect(await series()).toEqual([2]);
  for (let count = 0; count < 3; count += 1) record();
  expect(await series()).toEqual([5]);
  expect(log.lines).toEqual([]);
});
