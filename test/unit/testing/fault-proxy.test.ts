import type { WatchEvent } from '@echoperator/runtime/client';
import { eventually, FaultProxy, isList, isWatch, isWrite, type ProxiedRequest } from '@echoperator/testing';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { HttpClient } from '../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../packages/runtime/src/client/transport.ts';
import { stored, Widget, widgetsPath } from '../../../testkit/widgets.ts';
import { ScriptedServer, type Stream } from '../environment/scripted-server.ts';

let server: ScriptedServer;
let proxy: FaultProxy;
let transport: Transport;
let client: HttpClient;
const stop = new AbortController();

beforeEach(async () => {
  server = await ScriptedServer.start();
  proxy = await FaultProxy.start({ upstream: server.connection });
  transport = new Transport(proxy.connection, { userAgent: 'test/1' });
  client = new HttpClient(transport, 'tester');
});
afterEach(async () => {
  await transport.close();
  await proxy.close();
  await server.close();
});

/** A watch through the proxy, and how it came to its end. */
async function watch(): Promise<{ stream: Stream; events: WatchEvent<Widget>[]; end: Promise<unknown> }> {
  const events: WatchEvent<Widget>[] = [];
  const read = async (): Promise<unknown> => {
    const options = { resourceVersion: '1', timeoutSeconds: 60, signal: stop.signal };
    for await (const event of client.watch(Widget, options)) events.push(event);
    return 'ended';
  };
  const end = read().catch((error: unknown) => error);
  const stream = (await server.next({ watch: true })).stream();
  await eventually('the proxy has the watch', async () => proxy.watches === 1);
  return { stream, events, end };
}

const names = (events: readonly WatchEvent<Widget>[]) => events.map(({ object }) => (object as Widget).metadata.name);

test('without a fault, forwards the method, the path and the body unchanged', async () => {
  const created = client.create(Widget, { metadata: { name: 'a', namespace: 'default' } });
  const exchange = await server.next({ method: 'POST' });
  expect(exchange.path).toBe('/apis/test.example/v1/namespaces/default/widgets');
  expect(exchange.query.get('fieldManager')).toBe('tester');
  expect(exchange.body).toMatchObject({ kind: 'Widget', metadata: { name: 'a' } });
  exchange.json(201, stored('a', '7'));
  expect((await created).metadata.resourceVersion).toBe('7');
  expect(proxy.responses(201)).toBe(1);
  const { stream, events, end } = await watch();
  stream.send('ADDED', stored('a', '7'));
  stream.end();
  expect(await end).toBe('ended');
  expect(names(events)).toEqual(['a']);
});

test('can respond to every second write itself, without a request to the server', async () => {
  const conflict = proxy.inject({ type: 'error-response', status: 409, reason: 'Conflict' }, { on: isWrite, every: 2 });
  const first = client.delete(Widget, { namespace: 'default', name: 'a' });
  (await server.next({ method: 'DELETE' })).json(200, { kind: 'Status' });
  expect(await first).toBeUndefined();
  await expect(client.delete(Widget, { namespace: 'default', name: 'a' })).rejects.toMatchObject({ code: 409 });
  expect(conflict.count).toBe(1);
  expect(server.unclaimed).toBe(0);
});

test('ends a fault after a number of times, or earlier with off()', async () => {
  const storm = proxy.inject(
    { type: 'error-response', status: 503, reason: 'ServiceUnavailable' },
    { on: isList, times: 1 },
  );
  const unused = proxy.inject({ type: 'error-response', status: 500, reason: 'InternalError' });
  unused.off();
  await expect(client.list(Widget)).rejects.toMatchObject({ code: 503 });
  const list = client.list(Widget);
  (await server.next()).list('5', []);
  expect((await list).metadata.resourceVersion).toBe('5');
  expect([storm.count, unused.count]).toEqual([1, 0]);
});

test('resets an idle watch at once', async () => {
  const { end } = await watch();
  const cut = proxy.inject({ type: 'cut', how: 'reset' }, { on: isWatch });
  expect(await end).toMatchObject({ code: 'ECONNRESET' });
  expect(cut.count).toBe(1);
});

test('cuts a watch in the middle of a line', async () => {
  const { stream, events, end } = await watch();
  stream.send('ADDED', stored('a', '7'));
  await eventually('the first line is there', async () => events.length === 1);
  const cut = proxy.inject({ type: 'cut', how: 'end' }, { on: isWatch });
  stream.send('ADDED', stored('b', '8'));
  await end;
  expect(names(events)).toEqual(['a']);
  expect(cut.count).toBe(1);
});

test('applies a fault to a watch to which the server has not responded yet', async () => {
  const watching = client.watch(Widget, { resourceVersion: '1', timeoutSeconds: 60, signal: stop.signal });
  const first = watching[Symbol.asyncIterator]().next();
  const exchange = await server.next({ watch: true });
  const expired = proxy.inject({ type: 'error-event', status: 410, reason: 'Expired' });
  exchange.stream();
  await expect(first).rejects.toMatchObject({ code: 410 });
  expect(expired.count).toBe(1);
});

test('cuts a watch after a number of bytes, in the middle of a line', async () => {
  const line = (name: string) => `${JSON.stringify({ type: 'ADDED', object: stored(name, '7') })}\n`;
  const afterBytes = line('a').length + 10;
  const cut = proxy.inject({ type: 'cut', how: 'end', afterBytes }, { on: isWatch });
  const { stream, events, end } = await watch();
  // Whether they come in one piece or in several.
  stream.write(['a', 'b', 'c'].map(line).join(''));
  await end;
  expect(names(events)).toEqual(['a']);
  expect(cut.count).toBe(1);
});

test('does not cut a response that ends before that number of bytes', async () => {
  const cut = proxy.inject({ type: 'cut', how: 'reset', afterBytes: 10_000 }, { on: isWatch });
  const { stream, events, end } = await watch();
  stream.send('ADDED', stored('a', '7'));
  stream.end();
  expect(await end).toBe('ended');
  expect(names(events)).toEqual(['a']);
  expect(cut.count).toBe(0);
});

test('cuts a page in the middle', async () => {
  const cut = proxy.inject({ type: 'cut', how: 'reset' }, { on: isList, times: 1 });
  // Not by the client, which would ask again.
  const page = fetch(new URL(widgetsPath, proxy.connection.server)).then((response) => response.text());
  (await server.next({ path: widgetsPath })).list('7', [stored('a', '7')]);
  await expect(page).rejects.toThrow();
  expect(cut.count).toBe(1);
});

test('loses a response after the server has processed the request', async () => {
  const lost = proxy.inject({ type: 'lost-response' }, { on: isWrite });
  const created = client.create(Widget, { metadata: { name: 'a', namespace: 'default' } });
  (await server.next({ method: 'POST' })).json(201, stored('a', '7'));
  await expect(created).rejects.toMatchObject({ code: 'ECONNRESET' });
  expect(lost.count).toBe(1);
  expect(proxy.responses(201)).toBe(1);
});

test('forwards a delayed request when the function of the test has resolved', async () => {
  const until = Promise.withResolvers<void>();
  const delayed = proxy.inject({ type: 'delayed', until: () => until.promise }, { on: isWrite, times: 1 });
  const created = client.create(Widget, { metadata: { name: 'a', namespace: 'default' } });
  await eventually('the request is delayed', async () => delayed.count === 1);
  const other = client.create(Widget, { metadata: { name: 'b', namespace: 'default' } });
  const first = await server.next({ method: 'POST' });
  expect(first.body).toMatchObject({ metadata: { name: 'b' } });
  first.json(201, stored('b', '7'));
  await other;
  until.resolve();
  const second = await server.next({ method: 'POST' });
  expect(second.body).toMatchObject({ metadata: { name: 'a' } });
  second.json(201, stored('a', '8'));
  expect((await created).metadata.name).toBe('a');
});

test('does not forward a delayed request that the client has given up', async () => {
  const until = Promise.withResolvers<void>();
  const giveUp = new AbortController();
  const delayed = proxy.inject({ type: 'delayed', until: () => until.promise }, { on: isWrite });
  const creating = client.create(Widget, { metadata: { name: 'a', namespace: 'default' } }, { signal: giveUp.signal });
  await eventually('the request is delayed', async () => delayed.count === 1);
  giveUp.abort(new Error('too late'));
  await expect(creating).rejects.toThrow('too late');
  const read = async (): Promise<void> => {
    const list = client.list(Widget, { namespace: 'default' });
    (await server.next({ method: 'GET' })).json(200, { metadata: { resourceVersion: '7' }, items: [] });
    await list;
  };
  // When this connection is answered, the proxy has noticed the end of the earlier one.
  await read();
  until.resolve();
  await read();
  expect(server.unclaimed).toBe(0);
});

test('ends a delayed request without a response if the function of the test has failed, and tells its observer', async () => {
  const observed: unknown[] = [];
  await using observing = await FaultProxy.start({
    upstream: server.connection,
    observer: { response: (_, response) => observed.push(response) },
  });
  observing.inject({ type: 'delayed', until: () => Promise.reject(new Error('failed')) }, { on: isWrite });
  const through = new Transport(observing.connection, { userAgent: 'test/1' });
  const creating = new HttpClient(through, 'tester').create(Widget, { metadata: { name: 'a', namespace: 'default' } });
  await expect(creating).rejects.toThrow();
  await through.close();
  expect(observed).toEqual([undefined]);
  expect(server.unclaimed).toBe(0);
});

test('lets a list return an earlier version', async () => {
  const past = proxy.inject({ type: 'as-of', resourceVersion: '5' }, { on: isList });
  const list = client.list(Widget, { namespace: 'default', limit: 1 });
  const first = await server.next({ method: 'GET' });
  expect([first.query.get('resourceVersion'), first.query.get('resourceVersionMatch')]).toEqual(['5', 'Exact']);
  first.json(200, { metadata: { resourceVersion: '5', continue: 'more' }, items: [] });
  const page = client.list(Widget, { namespace: 'default', limit: 1, continue: (await list).metadata.continue! });
  const second = await server.next({ method: 'GET' });
  expect([second.query.get('resourceVersion'), second.query.get('continue')]).toEqual([null, 'more']);
  second.json(200, { metadata: { resourceVersion: '5' }, items: [] });
  await page;
  expect(past.count).toBe(2);
});

test('ends a watch with an ERROR event after the current line', async () => {
  const { stream, events, end } = await watch();
  const line = `${JSON.stringify({ type: 'ADDED', object: stored('a', '7') })}\n`;
  stream.write(line.slice(0, 20));
  await eventually('half a line has come through', async () => proxy.watches === 1);
  const expired = proxy.inject({ type: 'error-event', status: 410, reason: 'Expired' });
  stream.write(line.slice(20));
  expect(await end).toMatchObject({ code: 410 });
  // Where the half line came late the event was before it; never in its middle.
  expect(names(events).length).toBeLessThanOrEqual(1);
  expect(expired.count).toBe(1);
});

test('holds back all bytes permanently with silence', async () => {
  const { stream, events, end } = await watch();
  const silence = proxy.inject({ type: 'silence' }, { on: isWatch });
  stream.send('ADDED', stored('a', '7'));
  silence.off();
  const other = client.list(Widget);
  (await server.next({ path: widgetsPath, watch: false })).list('8', []);
  await other;
  expect(events).toEqual([]);
  expect(silence.count).toBe(1);
  await transport.close();
  await end;
});

test('holds back a slow response from its first byte, and completes it when the fault is off', async () => {
  const slow = proxy.inject({ type: 'slow', bytesPerSecond: 1 }, { on: isWatch });
  const { stream, events, end } = await watch();
  stream.send('ADDED', stored('a', '7'));
  stream.send('ADDED', stored('b', '8'));
  stream.end();
  expect(slow.count).toBe(1);
  // Other responses pass meanwhile.
  const list = client.list(Widget);
  (await server.next({ method: 'GET' })).json(200, { metadata: {}, items: [] });
  await list;
  expect(events).toEqual([]);
  slow.off();
  expect(await end).toBe('ended');
  expect(names(events)).toEqual(['a', 'b']);
});

test('holds back a slow response that arrives whole, and does not end it early', async () => {
  const slow = proxy.inject({ type: 'slow', bytesPerSecond: 1 }, { on: isList });
  let hasEnded = false;
  const list = client.list(Widget).finally(() => {
    hasEnded = true;
  });
  (await server.next({ path: widgetsPath })).list('7', [stored('a', '7')]);
  await eventually('the proxy has the response', async () => proxy.responses(200) === 1);
  // Another request takes longer than an end that does not wait for the body.
  const created = client.create(Widget, { metadata: { name: 'b', namespace: 'default' } });
  (await server.next({ method: 'POST' })).json(201, stored('b', '8'));
  await created;
  expect(hasEnded).toBe(false);
  slow.off();
  expect((await list).items).toHaveLength(1);
  expect(slow.count).toBe(1);
});

test('closes the connection if the server is unavailable', async () => {
  await server.close();
  await expect(client.list(Widget)).rejects.toThrow();
  server = await ScriptedServer.start();
});

test.each([
  ['unsent', false],
  ['reply-lost', false],
  ['replied', true],
] as const)('can crash the client at a write: %s', async (at, isAnswered) => {
  const observed: unknown[] = [];
  const crashed = Promise.withResolvers<void>();
  await using own = await FaultProxy.start({
    upstream: server.connection,
    observer: {
      request: ({ verb, resource }) => observed.push(`${verb} ${resource}`),
      response: (_, response) => observed.push(response?.status),
      crash: crashed.resolve,
    },
  });
  const ownTransport = new Transport(own.connection, { userAgent: 'test/1' });
  try {
    const fault = own.inject({ type: 'crash', at }, { on: isWrite, times: 1 });
    const creating = new HttpClient(ownTransport, 'tester')
      .create(Widget, { metadata: { name: 'a', namespace: 'default' } })
      .then(
        () => true,
        () => false,
      );
    if (at !== 'unsent') (await server.next({ method: 'POST' })).json(201, stored('a', '7'));
    await crashed.promise;
    expect(await creating).toBe(isAnswered);
    expect(fault.count).toBe(1);
    // Nothing is forwarded any more.
    await expect(new HttpClient(ownTransport, 'tester').create(Widget, { metadata: { name: 'b' } })).rejects.toThrow();
    expect(observed).toEqual(['create widgets', at === 'unsent' ? undefined : 201]);
  } finally {
    await ownTransport.close();
  }
});

test('can hold the events of a watch back, and deliver them when the fault is off', async () => {
  const { stream, events, end } = await watch();
  const hold = proxy.inject({ type: 'hold', expires: false }, { on: isWatch });
  stream.send('ADDED', stored('a', '7'));
  stream.send('MODIFIED', stored('a', '8'));
  // What another client gets after that shows that the events would have come by now.
  const list = client.list(Widget);
  (await server.next()).list('8', []);
  await list;
  expect([hold.count, events.length]).toEqual([1, 0]);
  hold.off();
  stream.end();
  expect(await end).toBe('ended');
  expect(events.map(({ type }) => type)).toEqual(['ADDED', 'MODIFIED']);
});

test('can end a held watch as expired instead, so that its events are never seen', async () => {
  const { stream, events, end } = await watch();
  const hold = proxy.inject({ type: 'hold', expires: true }, { on: isWatch });
  stream.send('ADDED', stored('a', '7'));
  hold.off();
  expect(await end).toMatchObject({ code: 410 });
  expect([hold.count, events.length]).toEqual([1, 0]);
});

test('can send a write only after the client has crashed', async () => {
  const observed: unknown[] = [];
  const crashed = Promise.withResolvers<void>();
  await using own = await FaultProxy.start({
    upstream: server.connection,
    observer: { response: (_, response) => observed.push(response?.status), crash: crashed.resolve },
  });
  const ownTransport = new Transport(own.connection, { userAgent: 'test/1' });
  try {
    const late = own.inject({ type: 'crash', at: 'late' }, { on: isWrite, times: 1 });
    const creating = new HttpClient(ownTransport, 'tester').create(Widget, {
      metadata: { name: 'a', namespace: 'default' },
    });
    await expect(creating).rejects.toThrow();
    await crashed.promise;
    expect([server.unclaimed, observed]).toEqual([0, []]);
    late.off();
    const exchange = await server.next({ method: 'POST' });
    expect(exchange.body).toMatchObject({ kind: 'Widget', metadata: { name: 'a' } });
    exchange.json(201, stored('a', '7'));
    await eventually('the proxy has the reply', async () => observed.length === 1);
    expect(observed).toEqual([201]);
  } finally {
    await ownTransport.close();
  }
});

test('tells its observer of a watch that the API server ends, and of one that it refuses', async () => {
  let ended = 0;
  await using own = await FaultProxy.start({
    upstream: server.connection,
    observer: {
      watchEnded: () => {
        ended += 1;
      },
    },
  });
  const ownTransport = new Transport(own.connection, { userAgent: 'test/1' });
  const watches = async () => {
    const options = { resourceVersion: '1', timeoutSeconds: 60, signal: stop.signal };
    for await (const _ of new HttpClient(ownTransport, 'tester').watch(Widget, options));
  };
  try {
    const first = watches();
    (await server.next({ watch: true })).stream().end();
    await first;
    await eventually('the end of the first watch', async () => ended === 1);
    const second = watches();
    (await server.next({ watch: true })).json(503, { kind: 'Status', code: 503 });
    await expect(second).rejects.toMatchObject({ code: 503 });
    await eventually('the refusal of the second watch', async () => ended === 2);
  } finally {
    await ownTransport.close();
  }
});

test('lets its observer choose the request for a fault', async () => {
  let chosen: ProxiedRequest | undefined;
  await using own = await FaultProxy.start({
    upstream: server.connection,
    observer: {
      request: (request) => {
        if (request.name === 'b') chosen = request;
      },
    },
  });
  const ownTransport = new Transport(own.connection, { userAgent: 'test/1' });
  try {
    const ownClient = new HttpClient(ownTransport, 'tester');
    const fault = { type: 'error-response', status: 404, reason: 'NotFound' } as const;
    const injected = own.inject(fault, { on: (request) => request === chosen });
    const other = ownClient.get(Widget, { name: 'a', namespace: 'default' });
    (await server.next({ method: 'GET' })).json(200, stored('a', '7'));
    await other;
    await expect(ownClient.get(Widget, { name: 'b', namespace: 'default' })).rejects.toMatchObject({ code: 404 });
    expect(injected.count).toBe(1);
  } finally {
    await ownTransport.close();
  }
});
