import { get } from 'node:http';
import { createClient } from '@echoperator/runtime/client';
import { FaultProxy } from '@echoperator/testing';
import { expect, test } from '@jest/globals';
import { SentTimes } from '../../../packages/testing/src/sent-times.ts';
import { stored, Widget } from '../../../testkit/widgets.ts';
import { ScriptedServer } from '../environment/scripted-server.ts';

test('a request was sent when its gate let it pass, not when a busy process receives it', async () => {
  const server = await ScriptedServer.start();
  const ports: (number | undefined)[] = [];
  const observer = { request: (_: unknown, port: number | undefined) => void ports.push(port) };
  await using proxy = await FaultProxy.start({ upstream: server.connection, observer });
  using sentTimes = new SentTimes();
  let passedAtMs = 0;
  const gate = {
    signal: new AbortController().signal,
    pass: () => {
      passedAtMs = performance.now();
      // After the request has been written, the process is busy.
      queueMicrotask(() => {
        while (performance.now() - passedAtMs < 100);
      });
    },
  };
  const client = createClient(proxy.connection, { fieldManager: 'tester', gate });
  const created = client.create(Widget, { metadata: { name: 'a', namespace: 'default' } });
  (await server.next()).json(201, stored('a', '7'));
  await created;
  expect(performance.now() - passedAtMs).toBeGreaterThan(100);
  const sentAfterMs = (sentTimes.of(ports[0]) ?? Number.NaN) - passedAtMs;
  expect(sentAfterMs).toBeGreaterThanOrEqual(0);
  expect(sentAfterMs).toBeLessThan(50);

  get(new URL('/', proxy.connection.server)).on('error', () => {});
  await server.next();
  expect(sentTimes.of(ports[1])).toBeUndefined();
  await client.close();
  await server.close();
});
