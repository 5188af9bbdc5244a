import type { Gate } from '@echoperator/runtime/client';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { stored, Widget } from '../../../../testkit/widgets.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';

/** A gate that the test closes, and that counts who passed. */
class TestGate implements Gate {
  readonly #closing = new AbortController();
  passed = 0;

  get signal(): AbortSignal {
    return this.#closing.signal;
  }

  pass(): void {
    this.signal.throwIfAborted();
    this.passed += 1;
  }

  close(): void {
    this.#closing.abort(new Error('the gate is closed'));
  }
}

let server: ScriptedServer;
let transport: Transport;
let gate: TestGate;
let client: HttpClient;

beforeEach(async () => {
  server = await ScriptedServer.start();
  // One connection: a second request waits.
  transport = new Transport(server.connection, { userAgent: 'test/1', connections: 1 });
  gate = new TestGate();
  client = new HttpClient(transport, 'tester', { gate });
});
afterEach(async () => {
  await transport.close();
  await server.close();
});

const create = (name: string) => client.create(Widget, { metadata: { name, namespace: 'ns' }, spec: { size: 1 } });

test('sends a request that passes the gate', async () => {
  const creating = create('a');
  (await server.next({ method: 'POST' })).json(201, stored('a', '1'));
  expect((await creating).metadata.name).toBe('a');
  expect(gate.passed).toBe(1);
});

test('does not send a queued request after the gate has closed', async () => {
  const first = create('a');
  const exchange = await server.next({ method: 'POST' });
  const queued = create('b');
  const outcomes = Promise.allSettled([first, queued]);
  gate.close();
  for (const outcome of await outcomes) {
    expect(outcome).toEqual({ status: 'rejected', reason: new Error('the gate is closed') });
  }
  expect(gate.passed).toBe(1);
  await exchange.closed;
  // Another client shares the connections, and is let through: nothing of b has come before it.
  const open = new HttpClient(transport, 'tester').get(Widget, { name: 'c', namespace: 'ns' });
  (await server.next()).json(200, stored('c', '1'));
  expect((await open).metadata.name).toBe('c');
  expect(server.unclaimed).toBe(0);
});

test('checks the gate when a request is sent, not when it is queued', async () => {
  const first = create('a');
  const exchange = await server.next({ method: 'POST' });
  const queued = create('b');
  // Closed for whoever passes, but nobody is told: a process that has just been woken.
  gate.pass = () => {
    throw new Error('too late');
  };
  exchange.json(201, stored('a', '1'));
  await first;
  await expect(queued).rejects.toThrow('too late');
  expect(server.unclaimed).toBe(0);
});

test('does not retry behind a closed gate', async () => {
  const creating = create('a');
  const outcome = expect(creating).rejects.toThrow('the gate is closed');
  const refused = await server.next({ method: 'POST' });
  refused.text(429, 'application/json', '{"kind":"Status","code":429}', { 'retry-after': '20' });
  // Another request is sent on the one connection only when the answer is in: the first waits for its next turn.
  const second = create('b');
  (await server.next({ method: 'POST' })).json(201, stored('b', '1'));
  await second;
  gate.close();
  await outcome;
  expect(gate.passed).toBe(2);
});

test('checks the gate for a watch too, and ends the watch when the gate closes', async () => {
  const watching = (async () => {
    for await (const _ of client.watch(Widget, { timeoutSeconds: 300, signal: new AbortController().signal })) {
      // Nothing comes.
    }
  })();
  const outcome = expect(watching).rejects.toThrow('the gate is closed');
  (await server.next({ watch: true })).stream();
  gate.close();
  await outcome;
  await expect(client.list(Widget)).rejects.toThrow('the gate is closed');
});
