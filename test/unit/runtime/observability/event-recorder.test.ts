import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Client } from '../../../../src/runtime/client/index.ts';
import { HttpClient, Transport } from '../../../../src/runtime/client/index.ts';
import { type EventNotice, EventRecorder } from '../../../../src/runtime/observability/index.ts';
import { RecordingLog } from '../../environment/recording-log.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';
import { Planet, stored, Widget } from '../../environment/widgets.ts';

interface WrittenEvent {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly eventTime: string;
  readonly note: string;
  readonly regarding: object;
}

const notice: EventNotice = { type: 'Warning', reason: 'TooLarge', action: 'Reconcile', note: 'it is too large' };

let server: ScriptedServer;
let transport: Transport;
let log: RecordingLog;
let recorder: EventRecorder;

const recorderOver = (client: Client): EventRecorder =>
  new EventRecorder({ client, controller: 'test.example/operator', instance: 'pod-1', log });

beforeEach(async () => {
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
  log = new RecordingLog();
  recorder = recorderOver(new HttpClient(transport, 'tester'));
});
afterEach(async () => {
  await transport.close();
  await server.close();
});

/** The event as it is posted, which is then answered. */
async function written(): Promise<WrittenEvent> {
  const request = await server.next();
  request.json(201, stored('event', '9'));
  await recorder.flush(30_000);
  return request.body as WrittenEvent;
}

describe('an Event', () => {
  test('has the fields that the API asks for', async () => {
    recorder.record(Widget, stored('a', '7'), notice);
    const request = await server.next();
    expect([request.method, request.path]).toEqual(['POST', '/apis/events.k8s.io/v1/namespaces/default/events']);
    expect(request.body).toEqual({
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { name: expect.stringMatching(/^a\.[0-9a-f]{16}$/), namespace: 'default' },
      eventTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
      type: 'Warning',
      reason: 'TooLarge',
      action: 'Reconcile',
      note: 'it is too large',
      reportingController: 'test.example/operator',
      reportingInstance: 'pod-1',
      regarding: {
        apiVersion: 'test.example/v1',
        kind: 'Widget',
        name: 'a',
        namespace: 'default',
        uid: 'uid-a',
        resourceVersion: '7',
      },
    });
    request.json(201, stored('event', '9'));
    await recorder.flush(30_000);
  });

  test('of a cluster-scoped object is in the namespace default, but does not say that the object is', async () => {
    const { namespace: _, ...metadata } = stored('earth', '7').metadata;
    recorder.record(Planet, { metadata }, notice);
    const event = await written();
    expect(event.metadata.namespace).toBe('default');
    expect(event.regarding).toEqual({
      apiVersion: 'test.example/v1',
      kind: 'Planet',
      name: 'earth',
      uid: 'uid-earth',
      resourceVersion: '7',
    });
  });

  test.each([
    ['of 253 characters', `${'a'.repeat(253)}`],
    ['cut at a dash', `${'a'.repeat(235)}-${'b'.repeat(17)}`],
    ['cut at a dot', `${'a'.repeat(235)}.${'b'.repeat(17)}`],
  ])('of an object with a name %s has a name that the API takes', async (_, name) => {
    recorder.record(Widget, stored(name, '7'), notice);
    const event = await written();
    expect(event.metadata.name.length).toBeLessThanOrEqual(253);
    expect(event.metadata.name).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
  });

  test('is another one each time', async () => {
    const names = new Set<string>();
    for (let count = 0; count < 3; count += 1) {
      recorder.record(Widget, stored('a', '7'), notice);
      names.add((await written()).metadata.name);
    }
    expect(names.size).toBe(3);
  });

  test.each([
    ['letters', 'x'.repeat(3000)],
    ['characters of three bytes', '世'.repeat(1000)],
    ['characters of four bytes', `x${'👋'.repeat(500)}`],
  ])('has a note that the API takes: 1,024 bytes at the most, of %s', async (_, note) => {
    recorder.record(Widget, stored('a', '7'), { ...notice, note });
    const event = await written();
    expect(Buffer.byteLength(event.note)).toBeLessThanOrEqual(1024);
    expect(Buffer.byteLength(event.note)).toBeGreaterThan(1020);
    expect(note.startsWith(event.note)).toBe(true);
    expect(event.note.isWellFormed()).toBe(true);
  });
});

describe('nobody waits, and nobody fails', () => {
  test('a refusal is a line in the log', async () => {
    recorder.record(Widget, stored('a', '7'), notice);
    (await server.next()).refuse(403, 'Forbidden');
    await recorder.flush(30_000);
    expect(log.lines).toEqual([
      {
        level: 'warn',
        message: 'an event was not written',
        details: { reason: 'TooLarge', err: expect.objectContaining({ code: 403 }) },
      },
    ]);
  });

  test('so is a client that throws at once', async () => {
    const client = {
      create: () => {
        throw new Error('a defect');
      },
    } as unknown as Client;
    recorder = recorderOver(client);
    expect(() => recorder.record(Widget, stored('a', '7'), notice)).not.toThrow();
    await recorder.flush(30_000);
    expect(log.messages('warn')).toEqual(['an event was not written']);
  });

  test('more than a thousand under way are dropped, and told; when there is room, they are taken again', async () => {
    const writes: (() => void)[] = [];
    const client = { create: () => new Promise<void>((resolve) => writes.push(resolve)) } as unknown as Client;
    recorder = recorderOver(client);
    for (let count = 0; count < 1002; count += 1) recorder.record(Widget, stored('a', '7'), notice);
    expect(writes).toHaveLength(1000);
    expect(log.messages('warn')).toEqual(Array(2).fill('too many events under way: one is dropped'));
    for (const finish of writes.splice(0)) finish();
    await recorder.flush(30_000);
    recorder.record(Widget, stored('a', '7'), notice);
    expect(writes).toHaveLength(1);
  });
});

describe('flush', () => {
  test('resolves when what was recorded is written', async () => {
    recorder.record(Widget, stored('a', '7'), notice);
    recorder.record(Widget, stored('b', '8'), notice);
    let flushed = false;
    const flushing = recorder.flush(30_000).then(() => {
      flushed = true;
    });
    (await server.next()).json(201, stored('event', '9'));
    const second = await server.next();
    expect(flushed).toBe(false);
    second.json(201, stored('event', '10'));
    await flushing;
  });

  test('resolves when the time is over', async () => {
    recorder.record(Widget, stored('a', '7'), notice);
    const request = await server.next();
    await recorder.flush(20);
    request.json(201, stored('event', '9'));
    await recorder.flush(30_000);
    expect(log.lines).toEqual([]);
  });

  test('resolves at once where there is nothing, and leaves no timer that keeps the process', async () => {
    const timers = (): number => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
    const before = timers();
    await recorder.flush(600_000);
    await new Promise((resolve) => setImmediate(resolve));
    expect(timers()).toBe(before);
    expect(server.unclaimed).toBe(0);
  });
});
