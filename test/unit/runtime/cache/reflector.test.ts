import type { ReflectorOptions } from '@echoperator/runtime/cache';
import type { Selection } from '@echoperator/runtime/client';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { Reflector } from '../../../../packages/runtime/src/cache/reflector.ts';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { stored, Widget, widgetsPath } from '../../../../testkit/widgets.ts';
import { type Exchange, ScriptedServer, type Stream } from '../../environment/scripted-server.ts';

let server: ScriptedServer;
let transport: Transport;
let log: RecordingLog;
let stop: AbortController;
let running: Promise<void>;
/** What the target was told: `replace a,b @5`, `ADDED a @6`. */
let told: string[];
/** What the target throws for every change. */
let applyError: unknown;

beforeEach(async () => {
  // Chance as it never is makes pauses a hundredth of their base: 8 ms after a first failure.
  jest.spyOn(Math, 'random').mockReturnValue(-0.49);
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
  log = new RecordingLog();
  stop = new AbortController();
  told = [];
  applyError = undefined;
});
afterEach(async () => {
  stop.abort();
  await running;
  await transport.close();
  await server.close();
  jest.restoreAllMocks();
});

function run(selection: Selection = {}, options: ReflectorOptions = {}): void {
  const reflector = new Reflector({
    ...options,
    client: new HttpClient(transport, 'tester'),
    kind: Widget,
    selection,
    log,
    target: {
      replace: (objects, resourceVersion) =>
        told.push(`replace ${objects.map(({ metadata }) => metadata.name).join()} @${resourceVersion}`),
      prepare: (object) => object,
      takeEvents: (events) => {
        if (applyError !== undefined) throw applyError;
        for (const { type, object } of events) {
          told.push(`${type} ${object.metadata.name} @${object.metadata.resourceVersion}`);
        }
      },
    },
  });
  running = reflector.run(stop.signal);
}

const nextList = (): Promise<Exchange> => server.next({ watch: false });
const nextWatch = (): Promise<Exchange> => server.next({ watch: true });
const from = (exchange: Exchange): string | null => exchange.query.get('resourceVersion');

/** Brings the reflector to its first watch, from version 5. */
async function watching(): Promise<Exchange> {
  run();
  (await nextList()).list('5', []);
  return nextWatch();
}

const toldAll = (...expected: readonly string[]): Promise<boolean> =>
  eventually(`the target is told ${expected.join(', ')}`, async () => told.length >= expected.length).finally(() =>
    expect(told).toEqual(expected),
  );

/** Answers the question for the server's present version, which follows a connection that was lost. */
async function check(resourceVersion: string): Promise<void> {
  const exchange = await nextList();
  expect([exchange.query.get('limit'), from(exchange), exchange.query.get('continue')]).toEqual(['1', null, null]);
  exchange.list(resourceVersion, []);
}

/** How long it says that it waits, in milliseconds. */
const pauses = (): unknown[] => log.lines.filter(({ level }) => level === 'warn').map(({ details }) => details.waitMs);

describe('a list', () => {
  test('is read in pages, passed to the target as a whole, and followed by a watch from its version', async () => {
    run({ namespace: 'default', labelSelector: 'a=b' });
    const first = await nextList();
    const path = '/apis/test.example/v1/namespaces/default/widgets';
    expect(first.path).toBe(path);
    expect(Object.fromEntries(first.query)).toEqual({ limit: '250', labelSelector: 'a=b' });
    first.list('5', [stored('a', '1')], 'page 2');
    const second = await nextList();
    expect(Object.fromEntries(second.query)).toEqual({ limit: '250', labelSelector: 'a=b', continue: 'page 2' });
    expect(told).toEqual([]);
    second.list('5', [stored('b', '2')], 'page 3');
    (await nextList()).list('5', [stored('c', '3')]);
    const watch = await nextWatch();
    expect(told).toEqual(['replace a,b,c @5']);
    expect([watch.path, from(watch), watch.query.get('labelSelector')]).toEqual([path, '5', 'a=b']);
  });

  test('restarts when its pages expire, and an incomplete list is not passed to the target', async () => {
    run();
    (await nextList()).list('5', [stored('a', '1')], 'page 2');
    (await nextList()).refuse(410, 'Expired');
    const again = await nextList();
    expect(again.query.has('continue')).toBe(false);
    again.list('9', [stored('b', '8')]);
    await toldAll('replace b @9');
  });

  test('whose pages expire twice is read in one response, without a pause', async () => {
    run();
    for (let time = 0; time < 2; time += 1) {
      const first = await nextList();
      expect(first.query.get('limit')).toBe('250');
      first.list('5', [stored('a', '1')], 'page 2');
      (await nextList()).refuse(410, 'Expired');
    }
    const whole = await nextList();
    expect([whole.query.get('limit'), whole.query.get('continue')]).toEqual([null, null]);
    whole.list('9', [stored('b', '8')]);
    await toldAll('replace b @9');
    expect(pauses()).toEqual([]);
  });

  test('is retried with growing pauses until it succeeds', async () => {
    run();
    (await nextList()).refuse(500, 'InternalError');
    (await nextList()).refuse(500, 'InternalError');
    (await nextList()).list('5', []);
    await toldAll('replace  @5');
    expect(pauses()).toEqual([8, 16]);
    expect(log.lines.find(({ level }) => level === 'warn')?.details).toMatchObject({
      resource: 'widgets.test.example',
      err: { code: 500 },
    });
  });
});

describe('a watch', () => {
  test('requests a timeout of 5 to 10 minutes', async () => {
    const seconds: number[] = [];
    for (const random of [0, 0.999]) {
      jest.spyOn(Math, 'random').mockReturnValue(random);
      const watch = await watching();
      seconds.push(Number(watch.query.get('timeoutSeconds')));
      stop.abort();
      await running;
      stop = new AbortController();
    }
    expect(seconds).toEqual([300, 600]);
  });

  test('is resumed from the last version when the server ends it, immediately and without a relist', async () => {
    const stream = (await watching()).stream();
    stream.send('ADDED', stored('a', '6'));
    stream.send('MODIFIED', stored('a', '7'));
    stream.end();
    await check('7');
    const again = await nextWatch();
    expect(from(again)).toBe('7');
    expect(told).toEqual(['replace  @5', 'ADDED a @6', 'MODIFIED a @7']);
    expect(pauses()).toEqual([]);
  });

  test('is resumed from the last version when the connection breaks in the middle of a line', async () => {
    const stream = (await watching()).stream();
    stream.send('ADDED', stored('a', '6'));
    stream.write('{"type":"MODIFIED","object":{"metadata":{"na');
    await toldAll('replace  @5', 'ADDED a @6');
    stream.cut();
    await check('9');
    const again = await nextWatch();
    expect(from(again)).toBe('6');
    again.stream().send('MODIFIED', stored('a', '7'));
    await toldAll('replace  @5', 'ADDED a @6', 'MODIFIED a @7');
  });

  test('is resumed from a bookmark', async () => {
    const stream = (await watching()).stream();
    stream.send('BOOKMARK', { kind: 'Widget', metadata: { resourceVersion: '40' } });
    stream.end();
    await check('40');
    expect(from(await nextWatch())).toBe('40');
  });

  test('is resumed after a refusal, without a relist', async () => {
    (await watching()).refuse(500, 'InternalError');
    (await nextWatch()).refuse(429, 'TooManyRequests');
    expect(from(await nextWatch())).toBe('5');
    expect(told).toEqual(['replace  @5']);
    expect(pauses()).toEqual([8, 16]);
  });

  test('resets its pauses after an event', async () => {
    (await watching()).refuse(500, 'InternalError');
    const stream = (await nextWatch()).stream();
    stream.send('ADDED', stored('a', '6'));
    await toldAll('replace  @5', 'ADDED a @6');
    stream.cut();
    await check('6');
    await nextWatch();
    expect(pauses()).toEqual([8, 8]);
  });

  test('that ends immediately without an event is retried after a pause', async () => {
    const first = await watching();
    jest.spyOn(Math, 'random').mockReturnValue(0);
    const startedAtMs = performance.now();
    first.stream().end();
    await check('5');
    expect(from(await nextWatch())).toBe('5');
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(390);
  });

  test.each<[string, (watch: Exchange) => void]>([
    ['that is refused with 410', (watch) => watch.refuse(410, 'Expired')],
    [
      'that ends with an ERROR event of 410',
      (watch) => watch.stream().send('ERROR', { kind: 'Status', code: 410, reason: 'Expired' }),
    ],
  ])('%s is followed by a relist', async (_, expire) => {
    expire(await watching());
    const list = await nextList();
    expect(from(list)).toBeNull();
    list.list('90', [stored('a', '80')]);
    expect(from(await nextWatch())).toBe('90');
    expect(pauses()).toEqual([8]);
    expect(told).toEqual(['replace  @5', 'replace a @90']);
    expect(log.messages('info')).toEqual(['the resourceVersion has expired: relisting']);
  });

  test('that is refused with 410 after each list is relisted with growing pauses', async () => {
    (await watching()).refuse(410, 'Expired');
    for (let time = 0; time < 2; time += 1) {
      (await nextList()).list('90', []);
      (await nextWatch()).refuse(410, 'Expired');
    }
    await nextList();
    expect(pauses()).toEqual([8, 16, 32]);
  });

  test('of a kind that is not served is retried with a warning about the CustomResourceDefinition', async () => {
    (await watching()).refuse(404, 'NotFound');
    await nextWatch();
    expect(log.messages('warn')).toEqual([
      'the server does not serve the kind (is its CustomResourceDefinition installed?): trying again',
    ]);
  });

  test('without events is resumed 15 s after its timeout, without a list or a warning', async () => {
    const setTimer = jest.spyOn(globalThis, 'setTimeout');
    const watch = await watching();
    watch.stream();
    const timers = setTimer.mock.calls.filter(([, delayMs]) => Number(delayMs) > 60_000);
    const timeoutSeconds = Number(watch.query.get('timeoutSeconds'));
    // The first is of the streamed list, which was refused.
    expect(timers.map(([, delayMs]) => delayMs)).toEqual(Array(2).fill((timeoutSeconds + 15) * 1000));
    timers[1]?.[0]();
    expect(from(await nextWatch())).toBe('5');
    expect(log.messages('warn')).toEqual([]);
    const line = log.lines.find(({ message }) => message.startsWith('the server did not end the watch in time'));
    expect(line).toMatchObject({ level: 'debug', details: { resourceVersion: '5' } });
  });

  test('of a kind that the server is preparing is retried without a warning', async () => {
    (await watching()).refuse(429, 'TooManyRequests', { message: 'storage is (re)initializing' });
    (await nextWatch()).stream();
    expect(log.messages('warn')).toEqual([]);
    expect(log.messages('debug')).toContain('the server is preparing the kind: trying again');
  });

  test('of a kind that the server has been preparing for half a minute is retried with a warning', async () => {
    const now = performance.now.bind(performance);
    let aheadMs = 0;
    jest.spyOn(performance, 'now').mockImplementation(() => now() + aheadMs);
    const preparing = { message: 'storage is (re)initializing' };
    (await watching()).refuse(429, 'TooManyRequests', preparing);
    const second = await nextWatch();
    aheadMs = 31_000;
    second.refuse(429, 'TooManyRequests', preparing);
    (await nextWatch()).stream();
    expect(log.messages('warn')).toEqual(['list or watch failed: trying again']);
  });

  test.each(['<html>', 'null', '{}', '{"type":"ADDED","object":{"metadata":{}}}'])(
    'that sends the invalid line %s is resumed from the event before it',
    async (line) => {
      const stream = (await watching()).stream();
      stream.write(`${JSON.stringify({ type: 'ADDED', object: stored('a', '6') })}\n${line}\n`);
      await check('6');
      expect(from(await nextWatch())).toBe('6');
      expect(told).toEqual(['replace  @5', 'ADDED a @6']);
      expect(log.lines.find(({ level }) => level === 'warn')?.details).toMatchObject({
        err: { message: expect.stringContaining(JSON.stringify(line)) },
      });
    },
  );

  test.each([new TypeError('x is not a function'), 'not an Error'])(
    'that fails on a programming error (%s) is resumed, and an error with the kind is logged',
    async (error) => {
      const stream = (await watching()).stream();
      applyError = error;
      stream.send('ADDED', stored('a', '6'));
      await check('6');
      expect(from(await nextWatch())).toBe('5');
      expect(log.lines.filter(({ level }) => level === 'error' || level === 'warn')).toMatchObject([
        {
          level: 'error',
          message: 'list or watch failed on a programming error: the cache is stale',
          details: { resource: 'widgets.test.example', err: error, waitMs: 8 },
        },
      ]);
    },
  );

  test('is retried after the pause that the Status requests', async () => {
    (await watching()).refuse(429, 'TooManyRequests', { details: { retryAfterSeconds: 1 } });
    await eventually('it waits', async () => pauses().length === 1);
    expect(pauses()).toEqual([1000]);
    await nextWatch();
  });

  test('is retried after the pause of the Retry-After header if the answer is no Status', async () => {
    (await watching()).text(429, 'text/plain', 'Too many requests, please try again later.', { 'retry-after': '1' });
    await eventually('it waits', async () => pauses().length === 1);
    expect(pauses()).toEqual([1000]);
    await nextWatch();
  });

  test('that is refused slowly does not reset the pauses', async () => {
    (await watching()).refuse(500, 'InternalError');
    const late = await nextWatch();
    await new Promise((resolve) => setTimeout(resolve, 1100));
    late.refuse(500, 'InternalError');
    await nextWatch();
    expect(pauses()).toEqual([8, 16]);
  });

  test('that ends with another ERROR event is resumed', async () => {
    const stream = (await watching()).stream();
    stream.send('ADDED', stored('a', '6'));
    stream.send('ERROR', { kind: 'Status', code: 500, reason: 'InternalError', message: 'etcd is away' });
    expect(from(await nextWatch())).toBe('6');
  });
});

describe('the check for a restored server', () => {
  test.each<[string, (watch: Exchange) => void]>([
    ['the connection failed', (watch) => watch.cut()],
    ['a proxy answered in place of the server', (watch) => watch.refuse(503, 'ServiceUnavailable')],
    ['the watch broke off', (watch) => watch.stream().cut()],
    ['the server ended the watch early', (watch) => watch.stream().end()],
  ])('is made, and relists, if %s', async (_, fail) => {
    fail(await watching());
    await check('4');
    (await nextList()).list('4', [stored('a', '3')]);
    expect(from(await nextWatch())).toBe('4');
    expect(told).toEqual(['replace  @5', 'replace a @4']);
    expect(log.messages('warn')).toContain('the server is older than the cache (restored from a backup?): relisting');
  });

  test('is repeated until the server answers, and no watch is opened before', async () => {
    (await watching()).cut();
    (await nextList()).refuse(502, 'BadGateway');
    (await nextList()).refuse(500, 'InternalError');
    await check('5');
    expect(from(await nextWatch())).toBe('5');
    expect(pauses()).toEqual([8, 16, 32]);
  });

  test('is left out if it is forbidden, because a streamed list needs only the permission to watch', async () => {
    (await watching()).cut();
    (await nextList()).refuse(403, 'Forbidden');
    expect(from(await nextWatch())).toBe('5');
  });

  test('is not made after an error response of the server itself', async () => {
    (await watching()).refuse(403, 'Forbidden');
    await nextWatch();
    expect(server.unclaimed).toBe(0);
  });
});

describe('a streamed list', () => {
  const streamed = (): Promise<Exchange> => {
    server.streamsLists = true;
    run({ labelSelector: 'a=b' });
    return nextWatch();
  };
  const end = (stream: Stream, resourceVersion: string): void =>
    stream.send('BOOKMARK', {
      metadata: { resourceVersion, annotations: { 'k8s.io/initial-events-end': 'true' } },
    });

  test('is passed to the target as a whole at its end, and the same watch continues', async () => {
    const request = await streamed();
    expect(Object.fromEntries(request.query)).toEqual({
      watch: 'true',
      allowWatchBookmarks: 'true',
      sendInitialEvents: 'true',
      resourceVersionMatch: 'NotOlderThan',
      labelSelector: 'a=b',
      timeoutSeconds: '153',
    });
    const stream = request.stream();
    for (const [name, version] of [
      ['b', '3'],
      ['a', '9'],
      ['c', '2'],
    ] as const) {
      stream.send('ADDED', stored(name, version));
    }
    // While it is under way objects change and go.
    stream.send('MODIFIED', stored('a', '10'));
    stream.send('DELETED', stored('c', '11'));
    stream.send('BOOKMARK', { metadata: { resourceVersion: '10' } });
    expect(told).toEqual([]);
    end(stream, '12');
    stream.send('ADDED', stored('d', '13'));
    await toldAll('replace b,a @12', 'ADDED d @13');
    expect(server.unclaimed).toBe(0);
  });

  test('that breaks off restarts, and an incomplete list is not passed to the target', async () => {
    const stream = (await streamed()).stream();
    stream.send('ADDED', stored('a', '3'));
    stream.cut();
    const again = await nextWatch();
    expect([again.query.get('sendInitialEvents'), from(again)]).toEqual(['true', null]);
    end(again.stream(), '7');
    await toldAll('replace  @7');
  });

  test('that the server ends early restarts', async () => {
    (await streamed()).stream().end();
    end((await nextWatch()).stream(), '7');
    await toldAll('replace  @7');
  });

  test('that breaks off twice is replaced by one list in pages', async () => {
    const first = (await streamed()).stream();
    first.send('ADDED', stored('a', '3'));
    first.end();
    (await nextWatch()).stream().cut();
    (await nextList()).list('7', [stored('a', '3')]);
    const watch = await nextWatch();
    expect(from(watch)).toBe('7');
    watch.refuse(410, 'Expired');
    end((await nextWatch()).stream(), '9');
    await toldAll('replace a @7', 'replace  @9');
  });

  test('that breaks off twice is tried again if lists are forbidden', async () => {
    const first = (await streamed()).stream();
    first.send('ADDED', stored('a', '3'));
    first.end();
    (await nextWatch()).stream().cut();
    (await nextList()).refuse(403, 'Forbidden');
    expect((await nextWatch()).query.get('sendInitialEvents')).toBe('true');
  });

  test('that is refused with 410 is retried after a pause', async () => {
    (await streamed()).refuse(410, 'Expired');
    (await nextWatch()).refuse(410, 'Expired');
    await nextWatch();
    expect(pauses()).toEqual([8, 16]);
  });

  test('follows an expired version, and the target keeps its objects until the list is complete', async () => {
    const stream = (await streamed()).stream();
    end(stream, '7');
    stream.send('ERROR', { kind: 'Status', code: 410, reason: 'Expired' });
    const again = await nextWatch();
    expect([again.query.get('sendInitialEvents'), from(again)]).toEqual(['true', null]);
    expect(told).toEqual(['replace  @7']);
  });

  test.each([
    [422, 'Invalid'],
    [400, 'BadRequest'],
  ])('that is refused with %d is replaced by pages immediately and for good', async (code, reason) => {
    (await streamed()).refuse(code, reason);
    (await nextList()).list('5', []);
    (await nextWatch()).refuse(410, 'Expired');
    (await nextList()).list('6', []);
    await toldAll('replace  @5', 'replace  @6');
    expect(pauses()).toEqual([8]);
  });

  test('is retried after another failure', async () => {
    (await streamed()).refuse(500, 'InternalError');
    expect((await nextWatch()).query.get('sendInitialEvents')).toBe('true');
  });
});

describe('an abort of the signal', () => {
  test.each<[string, () => Promise<unknown>]>([
    ['during a list', async () => run()],
    ['during a watch', watching],
    [
      'during a pause',
      async () => {
        const watch = await watching();
        // A pause of 13 minutes: longer than the test may take.
        jest.spyOn(Math, 'random').mockReturnValue(1000);
        watch.refuse(500, 'InternalError');
        await eventually('it waits', async () => pauses().length === 1);
      },
    ],
  ])('%s ends the run immediately and without a failure', async (_, begin) => {
    await begin();
    const failures = pauses().length;
    stop.abort();
    await running;
    expect(pauses()).toHaveLength(failures);
  });

  test('before the start prevents every request', async () => {
    stop.abort();
    run();
    await running;
    expect(server.unclaimed).toBe(0);
  });
});

test('a selection without a namespace covers all namespaces', async () => {
  run();
  expect((await nextList()).path).toBe(widgetsPath);
});
