import type { Client } from '@echoperator/runtime/client';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import {
  type EventNotice,
  EventRecorder,
  type EventRecorderOptions,
} from '../../../../packages/runtime/src/observability/event-recorder.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { Planet, stored, Widget } from '../../../../testkit/widgets.ts';
import { type Exchange, ScriptedServer } from '../../environment/scripted-server.ts';

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

const recorderOver = (client: Client, options: Partial<EventRecorderOptions> = {}): EventRecorder =>
  new EventRecorder({ client, controller: 'test.example/operator', instance: 'pod-1', log, ...options });

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

test('drops queued Events behind a closed gate, without a log line for each', async () => {
  const closing = new AbortController();
  const gate = { signal: closing.signal, pass: () => closing.signal.throwIfAborted() };
  const gated = recorderOver(new HttpClient(transport, 'tester', { gate }), { gate });
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) gated.record(Widget, stored(name, '7'), notice);
  await server.next();
  expect(gated.waiting).toBe(6);
  closing.abort(new Error('the gate is closed'));
  await gated.flush(30_000);
  expect(gated.waiting).toBe(0);
  expect(log.lines).toEqual([]);
});

describe('an Event', () => {
  test('has the fields that the API requires', async () => {
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

  test('about a cluster-scoped object is in the namespace default, but regarding has no namespace', async () => {
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
  ])('about an object with a name %s has a valid name', async (_, name) => {
    recorder.record(Widget, stored(name, '7'), notice);
    const event = await written();
    expect(event.metadata.name.length).toBeLessThanOrEqual(253);
    expect(event.metadata.name).toMatch(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
  });

  test('has a unique name', async () => {
    const names = new Set<string>();
    for (let count = 0; count < 3; count += 1) {
      recorder.record(Widget, stored('a', '7'), { ...notice, note: `${count}` });
      names.add((await written()).metadata.name);
    }
    expect(names.size).toBe(3);
  });

  test.each([
    ['letters', 'x'.repeat(3000)],
    ['characters of three bytes', '世'.repeat(1000)],
    ['characters of four bytes', `x${'👋'.repeat(500)}`],
  ])('has a note of at most 1,024 bytes, of %s', async (_, note) => {
    recorder.record(Widget, stored('a', '7'), { ...notice, note });
    const event = await written();
    expect(Buffer.byteLength(event.note)).toBeLessThanOrEqual(1024);
    expect(Buffer.byteLength(event.note)).toBeGreaterThan(1020);
    expect(note.startsWith(event.note)).toBe(true);
    expect(event.note.isWellFormed()).toBe(true);
  });
});

describe('failures', () => {
  test('a refusal is logged', async () => {
    recorder.record(Widget, stored('a', '7'), notice);
    (await server.next()).refuse(403, 'Forbidden');
    await recorder.flush(30_000);
    expect(log.lines).toEqual([
      {
        level: 'warn',
        message: 'failed to write an event',
        details: { reason: 'TooLarge', err: expect.objectContaining({ code: 403 }) },
      },
    ]);
  });

  test('a namespace that is being deleted is no reason to warn', async () => {
    recorder.record(Widget, stored('a', '7'), notice);
    const causes = [{ reason: 'NamespaceTerminating', field: 'metadata.namespace' }];
    (await server.next()).refuse(403, 'Forbidden', { details: { causes } });
    await recorder.flush(30_000);
    expect(log.lines.map(({ level, message }) => [level, message])).toEqual([
      ['debug', 'cannot write an event: its namespace is terminating'],
    ]);
  });

  test('a synchronous error of the client is logged', async () => {
    const client = {
      create: () => {
        throw new Error('a defect');
      },
    } as unknown as Client;
    recorder = recorderOver(client);
    expect(() => recorder.record(Widget, stored('a', '7'), notice)).not.toThrow();
    await recorder.flush(30_000);
    expect(log.messages('warn')).toEqual(['failed to write an event']);
  });

  test('limits concurrent and queued writes, and logs once when it starts and once when it stops dropping Events', async () => {
    const writes: (() => void)[] = [];
    const client = { create: () => new Promise<void>((resolve) => writes.push(resolve)) } as unknown as Client;
    recorder = recorderOver(client, { maxWaiting: 10 });
    for (let count = 0; count < 12; count += 1) recorder.record(Widget, stored(`a-${count}`, '7'), notice);
    expect(writes).toHaveLength(4);
    expect(log.messages('warn')).toEqual(['too many events are queued: dropping further events']);
    const flushed = recorder.flush(30_000);
    for (let written = 0; written < 10; written += 1) {
      await eventually('one more is written', async () => writes.length > 0);
      writes.shift()?.();
    }
    await flushed;
    recorder.record(Widget, stored('b', '7'), notice);
    expect(writes).toHaveLength(1);
    expect(log.lines.at(-1)).toMatchObject({ message: 'recording events again', details: { dropped: 2 } });
  });
});

describe('a repeated Event', () => {
  const series = (exchange: Exchange): unknown => (exchange.body as { readonly series?: unknown }).series;

  async function answered(): Promise<Exchange> {
    const request = await server.next();
    request.json(200, stored('event', '9'));
    return request;
  }

  test('turns the first Event into a series, and is only counted from then on', async () => {
    recorder.record(Widget, stored('a', '7'), notice);
    const { metadata } = await written();
    for (let count = 0; count < 5; count += 1) {
      recorder.record(Widget, stored('a', `${8 + count}`), notice);
      if (count === 0) {
        const patch = await answered();
        expect([patch.method, patch.path]).toEqual([
          'PATCH',
          `/apis/events.k8s.io/v1/namespaces/default/events/${metadata.name}`,
        ]);
        expect(patch.headers['content-type']).toBe('application/merge-patch+json');
        expect(patch.body).toEqual({
          series: { count: 2, lastObservedTime: expect.stringMatching(/^\d{4}-.*\.\d{6}Z$/) },
        });
      }
    }
    expect(server.unclaimed).toBe(0);
    const flushed = recorder.flush(30_000);
    expect(series(await answered())).toMatchObject({ count: 6 });
    await flushed;
    await recorder.flush(30_000);
    expect(server.unclaimed).toBe(0);
  });

  test('during the create is written after it', async () => {
    for (let count = 0; count < 3; count += 1) recorder.record(Widget, stored('a', '7'), notice);
    const first = await server.next();
    expect(server.unclaimed).toBe(0);
    first.json(201, stored('event', '9'));
    expect(series(await answered())).toMatchObject({ count: 3 });
    await recorder.flush(30_000);
    expect(server.unclaimed).toBe(0);
  });

  test.each([
    ['another object', stored('b', '7'), notice],
    ['a recreated object with the same name', stored('a', '8', { uid: 'another' }), notice],
    ['another type', stored('a', '7'), { ...notice, type: 'Normal' as const }],
    ['another reason', stored('a', '7'), { ...notice, reason: 'TooSmall' }],
    ['another action', stored('a', '7'), { ...notice, action: 'Delete' }],
    ['another note', stored('a', '7'), { ...notice, note: 'it is much too large' }],
  ])('is a separate Event with %s', async (_, object, other) => {
    recorder.record(Widget, stored('a', '7'), notice);
    await written();
    recorder.record(Widget, object, other);
    expect((await answered()).method).toBe('POST');
  });

  test('has its last count written when the series ends', async () => {
    recorder = recorderOver(new HttpClient(transport, 'tester'), { seriesSilenceMs: 30 });
    for (let count = 0; count < 2; count += 1) recorder.record(Widget, stored('a', '7'), notice);
    (await server.next({ method: 'POST' })).json(201, stored('event', '9'));
    const patch = await server.next({ method: 'PATCH' });
    recorder.record(Widget, stored('a', '7'), notice);
    patch.json(200, stored('event', '10'));
    expect(series(await answered())).toMatchObject({ count: 3 });
  });

  test('after a silence is a new Event', async () => {
    const writes: string[] = [];
    const client = { create: async () => writes.push('create'), patch: async () => writes.push('patch') };
    recorder = recorderOver(client as unknown as Client, { seriesSilenceMs: 1 });
    recorder.record(Widget, stored('a', '7'), notice);
    await eventually('the series is over', async () => {
      recorder.record(Widget, stored('a', '7'), notice);
      return writes.filter((write) => write === 'create').length > 1;
    });
  });

  test('refreshes a continuing series before the API server expires it', async () => {
    recorder = recorderOver(new HttpClient(transport, 'tester'), { seriesSilenceMs: 200, seriesRefreshMs: 1 });
    recorder.record(Widget, stored('a', '7'), notice);
    await written();
    recorder.record(Widget, stored('a', '7'), notice);
    await answered();
    recorder.record(Widget, stored('a', '7'), notice);
    expect(series(await answered())).toMatchObject({ count: 3 });
  });

  test('after a failed create is a new Event', async () => {
    recorder.record(Widget, stored('a', '7'), notice);
    (await server.next({ method: 'POST' })).refuse(403, 'Forbidden');
    await recorder.flush(30_000);
    recorder.record(Widget, stored('a', '7'), notice);
    expect((await answered()).method).toBe('POST');
  });

  test('after the Event was deleted is a new Event, and not a failure', async () => {
    recorder.record(Widget, stored('a', '7'), notice);
    await written();
    recorder.record(Widget, stored('a', '7'), notice);
    (await server.next({ method: 'PATCH' })).refuse(404, 'NotFound');
    await recorder.flush(30_000);
    recorder.record(Widget, stored('a', '7'), notice);
    expect((await answered()).method).toBe('POST');
    expect(log.lines).toEqual([]);
  });
});

describe('too many Events', () => {
  const notes = (count: number): EventNotice[] =>
    Array.from({ length: count }, (_, index) => ({ ...notice, note: `${index}` }));

  function counting(options: Partial<EventRecorderOptions> = {}): {
    readonly objects: string[];
    readonly patches: string[];
  } {
    const objects: string[] = [];
    const patches: string[] = [];
    const client = {
      create: async (_: unknown, event: { readonly regarding: { readonly name: string } }) => {
        objects.push(event.regarding.name);
      },
      patch: async (_: unknown, key: { readonly name: string }) => {
        patches.push(key.name.replace(/\..*/, ''));
      },
    } as unknown as Client;
    recorder = recorderOver(client, options);
    return { objects, patches };
  }

  test('about one object are dropped, which is logged once; another object has its own limit', async () => {
    const { objects } = counting();
    for (const other of notes(40)) recorder.record(Widget, stored('a', '7'), other);
    recorder.record(Widget, stored('b', '7'), notice);
    await recorder.flush(30_000);
    expect(objects).toEqual([...Array(25).fill('a'), 'b']);
    expect(log.lines).toEqual([
      {
        level: 'warn',
        message: 'too many events about one object: dropping further events',
        details: { object: { namespace: 'default', name: 'a' }, reason: 'TooLarge' },
      },
    ]);
  });

  test('are recorded again when the limit has refilled', async () => {
    const { objects } = counting({ burst: 1, refillMs: 20 });
    for (const other of notes(3)) recorder.record(Widget, stored('a', '7'), other);
    expect(objects).toHaveLength(1);
    await eventually('there is one more', async () => {
      recorder.record(Widget, stored('a', '7'), { ...notice, note: 'later' });
      return objects.length > 1;
    });
  });

  test('limits the remembered objects, and writes the counts of an evicted one', async () => {
    const { objects, patches } = counting({ maxObjects: 2 });
    const thrice = async (name: string): Promise<void> => {
      for (let count = 0; count < 3; count += 1) {
        recorder.record(Widget, stored(name, '7'), notice);
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await thrice('a');
    await thrice('b');
    expect(patches).toEqual(['a', 'b']);
    recorder.record(Widget, stored('c', '7'), notice);
    expect(patches).toEqual(['a', 'b', 'a']);
    recorder.record(Widget, stored('a', '7'), notice);
    expect(objects).toEqual(['a', 'b', 'c', 'a']);
  });
});

describe('flush', () => {
  test('resolves when the recorded Events are written', async () => {
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

  test('resolves after the timeout', async () => {
    recorder.record(Widget, stored('a', '7'), notice);
    const request = await server.next();
    await recorder.flush(20);
    request.json(201, stored('event', '9'));
    await recorder.flush(30_000);
    expect(log.lines).toEqual([]);
  });

  test('resolves at once without Events, and leaves no timer that keeps the process alive', async () => {
    const timers = (): number => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length;
    const before = timers();
    await recorder.flush(600_000);
    await new Promise((resolve) => setImmediate(resolve));
    expect(timers()).toBe(before);
    expect(server.unclaimed).toBe(0);
  });
});
