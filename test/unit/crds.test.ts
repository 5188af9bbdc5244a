import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { HttpClient } from '../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../packages/runtime/src/client/transport.ts';
import { applyCustomResourceDefinitions, deleteCustomResourceDefinitions } from '../../src/commands/crds.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { ScriptedServer } from './environment/scripted-server.ts';

const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/echos.mmontes.io';
const established = { type: 'Established', status: 'True', message: 'the initial names have been accepted' };
const notFound = { kind: 'Status', reason: 'NotFound', code: 404 };
const taken = { type: 'NamesAccepted', status: 'False', message: '"EchoList" is already in use' };

let server: ScriptedServer;
let transport: Transport;
let giveUp: AbortController;
let log: RecordingLog;

beforeEach(async () => {
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
  giveUp = new AbortController();
  log = new RecordingLog();
});
afterEach(async () => {
  await transport.close();
  await server.close();
});

/** Begins to apply; a failure is its outcome. */
function apply(version = '1.2.0'): Promise<unknown> {
  const client = new HttpClient(transport, 'tester');
  const applied = applyCustomResourceDefinitions(client, [Echo], { version, log, signal: giveUp.signal });
  return applied.catch((error: unknown) => error);
}

const accept = async () => {
  (await server.next({ method: 'GET', path })).json(404, notFound);
  (await server.next({ method: 'PATCH', path })).json(200, {});
};
const stamped = (version: string) => ({ annotations: { 'echoperator.github.io/version': version } });
const show = async (metadata: object, conditions: readonly object[]) =>
  (await server.next({ method: 'GET', path })).json(200, { metadata, status: { conditions } });

test('it ends when the definition is served', async () => {
  const outcome = apply();
  await accept();
  await show({}, []);
  await show({}, [established]);
  expect(await outcome).toBeUndefined();
});

test.each(['1.2.0', '1.1.9', '0.10.0', '1.2.0-rc.1', 'dev'])(
  'a definition of the version %s is replaced',
  async (version) => {
    const outcome = apply();
    await show(stamped(version), [established]);
    const exchange = await server.next({ method: 'PATCH', path });
    expect(exchange.body).toMatchObject({ metadata: stamped('1.2.0') });
    exchange.json(200, {});
    await show({}, [established]);
    expect(await outcome).toBeUndefined();
  },
);

test.each(['1.2.1', '1.10.0', '2.0.0-rc.1'])('a definition of the newer version %s stays', async (version) => {
  const outcome = apply();
  await show(stamped(version), [established]);
  await show(stamped(version), [established]);
  expect(await outcome).toBeUndefined();
  expect(log.messages('warn')).toEqual(['a newer version of the operator has applied this definition: it stays']);
});

test('a program without a version replaces every definition, and stamps none', async () => {
  const outcome = apply('dev');
  const exchange = await server.next({ method: 'PATCH', path });
  expect(exchange.body).toMatchObject({ metadata: { name: 'echos.mmontes.io' } });
  expect(exchange.body).not.toHaveProperty('metadata.annotations');
  exchange.json(200, {});
  await show({}, [established]);
  expect(await outcome).toBeUndefined();
});

test.each([
  ['refused its names', {}, [taken], 'NamesAccepted is False: "EchoList" is already in use'],
  [
    'on its way out, though served still',
    { deletionTimestamp: '2026-01-01T00:00:00Z' },
    [established],
    'being deleted',
  ],
])(
  'a definition that is %s is waited for, and at the end of the time its state is told',
  async (_, metadata, conditions, told) => {
    const outcome = apply();
    await accept();
    await show(metadata, conditions);
    await server.next({ method: 'GET', path });
    giveUp.abort();
    expect(String(await outcome)).toMatch(
      new RegExp(`echos.mmontes.io was applied but did not become Established: .*${told}`),
    );
  },
);

test('delete-crds ends when the definition is gone, also if it never existed', async () => {
  const client = new HttpClient(transport, 'tester');
  const remove = () => deleteCustomResourceDefinitions(client, [Echo], new RecordingLog(), giveUp.signal);
  const first = remove();
  (await server.next({ method: 'DELETE', path })).json(200, { metadata: {} });
  await show({}, [established]);
  (await server.next({ method: 'GET', path })).json(404, notFound);
  expect(await first).toBeUndefined();
  const second = remove();
  (await server.next({ method: 'DELETE', path })).json(404, notFound);
  (await server.next({ method: 'GET', path })).json(404, notFound);
  expect(await second).toBeUndefined();
});

test('delete-crds that runs out of time says what the definition waits for', async () => {
  const client = new HttpClient(transport, 'tester');
  const outcome = deleteCustomResourceDefinitions(client, [Echo], new RecordingLog(), giveUp.signal).catch(String);
  (await server.next({ method: 'DELETE', path })).json(200, { metadata: {} });
  await show({}, [established, { type: 'Terminating', status: 'True', message: 'some instances have finalizers' }]);
  await server.next({ method: 'GET', path });
  giveUp.abort();
  expect(await outcome).toContain(
    'echos.mmontes.io is being deleted but is not gone: Terminating is True: some instances',
  );
});
