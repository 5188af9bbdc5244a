import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { Reflector } from '../../../../src/runtime/cache/index.ts';
import { HttpClient, type Selection, Transport } from '../../../../src/runtime/client/index.ts';
import { eventually } from '../../../integration/environment/eventually.ts';
import { RecordingLog } from '../../environment/recording-log.ts';
import { type Exchange, ScriptedServer } from '../../environment/scripted-server.ts';
import { stored, Widget, widgetsPath } from '../../environment/widgets.ts';

let server: ScriptedServer;
let transport: Transport;
let log: RecordingLog;
let stop: AbortController;
let running: Promise<void>;
/** What the target was told: `replace a,b @5`, `ADDED a @6`. */
let told: string[];

beforeEach(async () => {
  // Chance as it never is makes pauses a hundredth of their base: 8 ms after a first failure.
  jest.spyOn(Math, 'random').mockReturnValue(-0.49);
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
  log = new RecordingLog();
  stop = new AbortController();
  told = [];
});
afterEach(async () => {
  stop.abort();
  await running;
  await transport.close();
  await server.close();
  jest.restoreAllMocks();
});

function run(selection: Selection = {}): void {
  const reflector = new Reflector({
    client: new HttpClient(transport, 'tester'),
    kind: Widget,
    selection,
    log,
    target: {
      replace: (objects, resourceVersion) =>
        told.push(`replace ${objects.map(({ metadata }) => metadata.name).join()} @${resourceVersion}`),
      prepare: (object) => object,
      apply: (events) => {
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

/** How long it says that it waits, in milliseconds. */
const pauses = (): unknown[] => log.lines.filter(({ level }) => level === 'warn').map(({ details }) => details.waitMs);

describe('the list', () => {
  test('is read in pages to its end, then handed over as one and watched from there', async () => {
    run({ namespace: 'default', labelSelector: 'a=b' });
    const first = await nextList();
    const path = '/apis/test.example/v1/namespaces/default/widgets';
    expect(first.path).toBe(path);
    expect(Object.fromEntries(first.query)).toEqual({ limit: '500', labelSelector: 'a=b' });
    first.list('5', [stored('a', '1')], 'page 2');
    const second = await nextList();
    expect(Object.fromEntries(second.query)).toEqual({ limit: '500', labelSelector: 'a=b', continue: 'page 2' });
    expect(told).toEqual([]);
    second.list('5', [stored('b', '2')], 'page 3');
    (await nextList()).list('5', [stored('c', '3')]);
    const watch = await nextWatch();
    expect(told).toEqual(['replace a,b,c @5']);
    expect([watch.path, from(watch), watch.query.get('labelSelector')]).toEqual([path, '5', 'a=b']);
  });

  test('begins anew when its pages have expired: no half of it is handed over', async () => {
    run();
    (await nextList()).list('5', [stored('a', '1')], 'page 2');
    (await nextList()).refuse(410, 'Expired');
    const again = await nextList();
    expect(again.query.has('continue')).toBe(false);
    again.list('9', [stored('b', '8')]);
    await toldAll('replace b @9');
  });

  test('is asked for until the server gives it, with pauses that grow', async () => {
    run();
    (await nextList()).refuse(500, 'InternalError');
    (await nextList()).cut();
    (await nextList()).list('5', []);
    await toldAll('replace  @5');
    expect(pauses()).toEqual([8, 16]);
    expect(log.lines.find(({ level }) => level === 'warn')?.details).toMatchObject({
      resource: 'widgets.test.example',
      err: { code: 500 },
    });
  });
});

describe('the watch', () => {
  test('asks for an end by the server after 5 to 10 minutes', async () => {
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

  test('is resumed from the last version when the server ends it, at once and without a new list', async () => {
    const stream = (await watching()).stream();
    stream.send('ADDED', stored('a', '6'));
    stream.send('MODIFIED', stored('a', '7'));
    stream.end();
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
    const again = await nextWatch();
    expect(from(again)).toBe('6');
    again.stream().send('MODIFIED', stored('a', '7'));
    await toldAll('replace  @5', 'ADDED a @6', 'MODIFIED a @7');
  });

  test('is resumed from a bookmark', async () => {
    const stream = (await watching()).stream();
    stream.send('BOOKMARK', { kind: 'Widget', metadata: { resourceVersion: '40' } });
    stream.end();
    expect(from(await nextWatch())).toBe('40');
  });

  test('is resumed after the server refused it, without a new list', async () => {
    (await watching()).refuse(500, 'InternalError');
    (await nextWatch()).refuse(429, 'TooManyRequests');
    expect(from(await nextWatch())).toBe('5');
    expect(told).toEqual(['replace  @5']);
    expect(pauses()).toEqual([8, 16]);
  });

  test('pauses begin anew after an event', async () => {
    (await watching()).refuse(500, 'InternalError');
    const stream = (await nextWatch()).stream();
    stream.send('ADDED', stored('a', '6'));
    await toldAll('replace  @5', 'ADDED a @6');
    stream.cut();
    await nextWatch();
    expect(pauses()).toEqual([8, 8]);
  });

  test('that ends at once without an event is not asked for again in a tight loop', async () => {
    const first = await watching();
    jest.spyOn(Math, 'random').mockReturnValue(0);
    const startedAtMs = performance.now();
    first.stream().end();
    expect(from(await nextWatch())).toBe('5');
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(390);
  });

  test.each<[string, (watch: Exchange) => void]>([
    ['refused with 410', (watch) => watch.refuse(410, 'Expired')],
    [
      'broken off by an ERROR event',
      (watch) => watch.stream().send('ERROR', { kind: 'Status', code: 410, reason: 'Expired' }),
    ],
  ])('%s is followed by a new list', async (_, expire) => {
    expire(await watching());
    const list = await nextList();
    expect(from(list)).toBeNull();
    list.list('90', [stored('a', '80')]);
    expect(from(await nextWatch())).toBe('90');
    expect(told).toEqual(['replace  @5', 'replace a @90']);
    expect(log.messages('info')).toEqual(['the resource version has expired: listing anew']);
  });

  test('broken off by another ERROR event is resumed', async () => {
    const stream = (await watching()).stream();
    stream.send('ADDED', stored('a', '6'));
    stream.send('ERROR', { kind: 'Status', code: 500, reason: 'InternalError', message: 'etcd is away' });
    expect(from(await nextWatch())).toBe('6');
  });
});

describe('the end', () => {
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
  ])('%s comes at once and is no failure', async (_, begin) => {
    await begin();
    const failures = pauses().length;
    stop.abort();
    await running;
    expect(pauses()).toHaveLength(failures);
  });

  test('before the start asks for nothing', async () => {
    stop.abort();
    run();
    await running;
    expect(server.unclaimed).toBe(0);
  });
});

test('without a namespace it asks for all of them', async () => {
  run();
  expect((await nextList()).path).toBe(widgetsPath);
});
