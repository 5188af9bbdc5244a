import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { HttpClient } from '../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../packages/runtime/src/client/transport.ts';
import { checkUninstall, StillNeededError } from '../../src/commands/check-uninstall.ts';
import { stored, Widget } from '../../testkit/widgets.ts';
import { ScriptedServer } from './environment/scripted-server.ts';

const kindsWithFinalizer = [{ kind: Widget, finalizer: 'example.com/outside' }];

let server: ScriptedServer;
let transport: Transport;

beforeEach(async () => {
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
});
afterEach(async () => {
  await transport.close();
  await server.close();
});

const check = (namespaces?: readonly string[]): Promise<unknown> =>
  checkUninstall(new HttpClient(transport, 'tester'), kindsWithFinalizer, {
    namespaces,
    release: { name: 'demo', namespace: 'ops' },
    disabledReason: 'ControllerDisabled',
    signal: new AbortController().signal,
  }).then(
    () => 'free to go',
    (error: unknown) => error,
  );

const widget = (name: string, ...finalizers: readonly string[]) => stored(name, '1', { finalizers });

const answer = async (items: readonly object[], continueToken?: string) =>
  (await server.next({ method: 'GET' })).json(200, {
    items,
    metadata: { resourceVersion: '5', ...(continueToken && { continue: continueToken }) },
  });

test('the uninstallation is allowed if no object has our finalizer', async () => {
  const outcome = check();
  await answer([widget('free'), widget('of-others', 'example.com/others')]);
  expect(await outcome).toBe('free to go');
});

test('objects with our finalizer are listed, on every page of the list', async () => {
  const outcome = check();
  await answer([widget('one', 'example.com/others', 'example.com/outside')], 'more');
  await answer([widget('two', 'example.com/outside')]);
  const error = await outcome;
  expect(error).toBeInstanceOf(StillNeededError);
  expect((error as Error).message.split('\n').slice(1)).toEqual([
    '  kubectl delete --namespace default widgets.test.example one two',
    'Then uninstall again: helm uninstall demo --namespace ops',
    'To keep the objects for a later installation: helm uninstall demo --namespace ops --no-hooks',
  ]);
});

test('of a kind whose controller is off it is told that nothing would remove the finalizer', async () => {
  const outcome = check();
  const message = 'the controller of Widget is disabled: enable it';
  const conditions = [{ type: 'Ready', status: 'False', reason: 'ControllerDisabled', message }];
  const waiting = { ...widget('waiting', 'example.com/outside'), status: { conditions } };
  await answer([waiting, { ...waiting, metadata: { ...waiting.metadata, name: 'also' } }]);
  const lines = ((await outcome) as Error).message.split('\n');
  expect(lines.filter((line) => line.includes('disabled'))).toEqual([`But ${message}`]);
});

test('at most 100 objects are listed, and the others are counted', async () => {
  const outcome = check();
  await answer(Array.from({ length: 130 }, (_, index) => widget(`w-${index}`, 'example.com/outside')));
  const lines = ((await outcome) as Error).message.split('\n');
  expect(lines[1]?.match(/ w-\d+/g)).toHaveLength(100);
  expect(lines[2]).toBe('  and 30 more');
});

test('a kind that is not served has no objects', async () => {
  const outcome = check();
  (await server.next({ method: 'GET' })).json(404, { message: 'page not found' });
  expect(await outcome).toBe('free to go');
});

test('only the watched namespaces are searched', async () => {
  const outcome = check(['team-a', 'team-b']);
  for (const namespace of ['team-a', 'team-b']) {
    const exchange = await server.next({ method: 'GET' });
    expect(exchange.path).toBe(`/apis/test.example/v1/namespaces/${namespace}/widgets`);
    exchange.json(200, { items: [], metadata: { resourceVersion: '5' } });
  }
  expect(await outcome).toBe('free to go');
});

test('a namespace that may not be looked at is named, and what to do if it was deleted, beside what the others have', async () => {
  const outcome = check(['gone', 'team-b']);
  (await server.next({ method: 'GET' })).json(403, { reason: 'Forbidden', message: 'may not list' });
  await answer([widget('one', 'example.com/outside')]);
  const error = await outcome;
  expect(error).toBeInstanceOf(StillNeededError);
  const { message } = error as Error;
  expect(message).toContain('kubectl delete --namespace default widgets.test.example one\n');
  expect(message).toContain('may not list the objects in the namespace "gone". If it was deleted');
  expect(message).toContain('helm uninstall demo --namespace ops --no-hooks');
});

test('a missing permission is an error', async () => {
  const outcome = check();
  (await server.next({ method: 'GET' })).json(403, { reason: 'Forbidden', message: 'may not list' });
  expect(await outcome).toMatchObject({ code: 403 });
});
