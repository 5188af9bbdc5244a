/** Tests on a real API server: `npm run integration`. If its programs are missing, the error says how to get them. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { customResourceDefinitions } from '@echoperator/runtime';
import { type ConnectedClient, createClient, isInvalid, isNotFound } from '@echoperator/runtime/client';
import { ConfigMap } from '@echoperator/runtime/kinds';
import { connectOperator } from '@echoperator/runtime/process';
import { ApiServer, eventually } from '@echoperator/testing';
import { pino } from 'pino';
import { controllers } from '../src/main.ts';
import { SampleKind } from '../src/sample-kind.ts';

const key = { namespace: 'default', name: 'hello' };
const stop = new AbortController();
let server: ApiServer;
let client: ConnectedClient;
let running: Promise<void>;

before(async () => {
  server = await ApiServer.start({ crds: customResourceDefinitions(controllers) });
  client = createClient(server.connection, { fieldManager: 'test' });
  const log = pino({ level: 'silent' });
  const operator = await connectOperator({ name: 'sample-operator', log, connection: server.connection });
  for (const controller of controllers) controller.add(operator);
  running = operator.run(stop.signal);
});

after(async () => {
  stop.abort();
  await running;
  await client?.close();
  await server?.close();
});

test('keeps the ConfigMap until its owner is deleted', async () => {
  await client.create(SampleKind, { metadata: key, spec: { text: 'Hello, world!' } });
  await eventually('the ConfigMap exists', () => client.get(ConfigMap, key));
  await client.delete(ConfigMap, key);
  await eventually('the ConfigMap is restored', () => client.get(ConfigMap, key));
  // No controller of Kubernetes runs here, so nothing collects the garbage: only the owner is gone.
  await client.delete(SampleKind, key);
  await eventually('the owner is gone', () => client.get(SampleKind, key).then(() => false, isNotFound));
});

test('the API server refuses an empty text', async () => {
  await assert.rejects(client.create(SampleKind, { metadata: key, spec: { text: '' } }), isInvalid);
});
