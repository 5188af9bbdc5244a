import { Informer, type InformerOptions } from '@echoperator/runtime/cache';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { stored, Widget } from '../../../../testkit/widgets.ts';
import { type Exchange, ScriptedServer, type Stream } from '../../environment/scripted-server.ts';

let server: ScriptedServer;
let transport: Transport;
let stop: AbortController;
let log: RecordingLog;
let informer: Informer<Widget>;
let running: Promise<unknown> | undefined;
/** What a handler was told: `added a @1`. */
let deltas: string[];

beforeEach(async () => {
  // Chance as it never is makes pauses a hundredth of their base: 8 ms after a first failure.
  jest.spyOn(Math, 'random').mockReturnValue(-0.49);
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
  stop = new AbortController();
  log = new RecordingLog();
  running = undefined;
  make();
});
afterEach(async () => {
  stop.abort();
  await running;
  await transport.close();
  await server.close();
  jest.restoreAllMocks();
});

function make(options: InformerOptions<Widget> = {}): void {
  informer = new Informer({ ...options, client: new HttpClient(transport, 'tester'), kind: Widget, log });
  deltas = [];
  informer.addHandler(({ type, object }) => {
    deltas.push(`${type} ${object.metadata.name} @${object.metadata.resourceVersion}`);
  });
}

async function watching(resourceVersion: string, items: readonly Widget[]): Promise<Stream> {
  running = informer.run(stop.signal);
  (await server.next({ watch: false })).list(resourceVersion, items);
  return (await server.next({ watch: true })).stream();
}

const told = (count: number): Promise<boolean> => eventually(`${count} deltas`, async () => deltas.length >= count);

test('has synced only when it holds a complete list', async () => {
  let synced = false;
  void informer.synced.then(() => {
    synced = true;
  });
  expect(informer.hasSynced).toBe(false);
  running = informer.run(stop.signal);
  const first = await server.next({ watch: false });
  first.list('5', [stored('a', '1')], 'page 2');
  const second = await server.next({ watch: false });
  expect([informer.hasSynced, synced, informer.store.size]).toEqual([false, false, 0]);
  second.list('5', [stored('b', '2')]);
  await informer.synced;
  expect([informer.hasSynced, informer.store.size]).toEqual([true, 2]);
  expect(deltas).toEqual(['added a @1', 'added b @2']);
});

describe('an informer of an optional kind', () => {
  test.each([404, 403])(
    'has synced and is empty when the server answers %d, and fills when the kind is served',
    async (code) => {
      make({ optional: true });
      running = informer.run(stop.signal);
      (await server.next({ watch: false })).json(code, { reason: 'Unknown', message: 'the server has no such thing' });
      await informer.synced;
      expect([informer.hasSynced, informer.store.size]).toEqual([true, 0]);
      (await server.next({ watch: false })).list('5', [stored('a', '1')]);
      await told(1);
      expect([informer.hasSynced, informer.store.size]).toEqual([true, 1]);
    },
  );

  test('has not synced while the server fails', async () => {
    make({ optional: true });
    running = informer.run(stop.signal);
    (await server.next({ watch: false })).json(500, { reason: 'InternalError', message: 'no' });
    const next = await server.next({ watch: false });
    expect(informer.hasSynced).toBe(false);
    next.list('5', []);
    await informer.synced;
  });

  test('counts each refused namespace once', async () => {
    make({ optional: true, namespaces: ['default', 'other'] });
    running = informer.run(stop.signal);
    for (let answer = 0; answer < 2; answer++) (await server.next({ watch: false })).json(404, { message: 'no' });
    await informer.synced;
    expect(informer.hasSynced).toBe(true);
  });
});

test('an informer of a required kind has not synced while the kind is not served', async () => {
  running = informer.run(stop.signal);
  (await server.next({ watch: false })).json(404, { message: 'no' });
  const next = await server.next({ watch: false });
  expect(informer.hasSynced).toBe(false);
  next.list('5', []);
  await informer.synced;
});

test('calls each handler for each change, in order, after the store has applied it', async () => {
  const seen: string[] = [];
  informer.addHandler((delta) => {
    const inStore = informer.store.get({ name: delta.object.metadata.name, namespace: 'default' });
    seen.push(`${delta.type} ${inStore?.metadata.resourceVersion ?? 'gone'}`);
  });
  const stream = await watching('5', [stored('a', '1')]);
  stream.send('MODIFIED', stored('a', '6'));
  stream.send('ADDED', stored('b', '7'));
  stream.send('DELETED', stored('a', '8'));
  await told(4);
  expect(deltas).toEqual(['added a @1', 'modified a @6', 'added b @7', 'deleted a @8']);
  expect(seen).toEqual(['added 1', 'modified 6', 'added 7', 'deleted gone']);
});

test('calls no handler for a known version or a bookmark', async () => {
  const stream = await watching('5', [stored('a', '1')]);
  stream.send('MODIFIED', stored('a', '1'));
  stream.send('BOOKMARK', { metadata: { resourceVersion: '9' } });
  await eventually('the bookmark', async () => informer.hasReached('9'));
  expect(deltas).toEqual(['added a @1']);
  expect(informer.store.size).toBe(1);
});

test('a relist delivers deletions, changes and recreations that the watch missed', async () => {
  const stream = await watching('5', [stored('kept', '1'), stored('gone', '2'), stored('again', '3', { uid: 'old' })]);
  stream.send('ERROR', { kind: 'Status', code: 410, reason: 'Expired' });
  const list = await server.next({ watch: false });
  // While it is away the store keeps what it had.
  expect([informer.store.size, informer.hasSynced]).toEqual([3, true]);
  list.list('50', [stored('kept', '1'), stored('again', '40', { uid: 'new' }), stored('new', '45')]);
  await told(7);
  expect(deltas.slice(3)).toEqual(['deleted again @3', 'added again @40', 'added new @45', 'deleted gone @2']);
});

test('a list, an event, a deletion and a bookmark advance the resourceVersion', async () => {
  expect(informer.hasReached('0')).toBe(false);
  const stream = await watching('99', []);
  expect([informer.hasReached('9'), informer.hasReached('99'), informer.hasReached('100')]).toEqual([
    true,
    true,
    false,
  ]);
  stream.send('ADDED', stored('a', '100'));
  await eventually('the event', async () => informer.hasReached('100'));
  stream.send('DELETED', stored('a', '101'));
  await eventually('the deletion', async () => informer.hasReached('101'));
  stream.send('BOOKMARK', { metadata: { resourceVersion: '110' } });
  await eventually('the bookmark', async () => informer.hasReached('110'));
  expect(informer.hasReached('111')).toBe(false);
});

test('finds stored objects by an index', async () => {
  informer.addIndex('uid', ({ metadata }) => [metadata.uid]);
  await watching('5', [stored('a', '1')]);
  expect([...informer.store.byIndex('uid', 'uid-a')]).toHaveLength(1);
});

test('a handler that throws misses that change, which is logged; other handlers receive it', async () => {
  const after: string[] = [];
  informer.addHandler(({ object }) => {
    if (object.metadata.name === 'bad') throw new Error('a defect');
  });
  informer.addHandler(({ object }) => after.push(object.metadata.name));
  const stream = await watching('5', [stored('bad', '1'), stored('a', '2')]);
  stream.send('MODIFIED', stored('bad', '6'));
  stream.send('ADDED', stored('b', '7'));
  await told(4);
  expect(deltas).toEqual(['added bad @1', 'added a @2', 'modified bad @6', 'added b @7']);
  expect(after).toEqual(['bad', 'a', 'bad', 'b']);
  expect(informer.hasSynced).toBe(true);
  expect(log.lines.filter(({ level }) => level === 'error')).toEqual([
    {
      level: 'error',
      message: 'a handler threw: it has missed a change',
      details: expect.objectContaining({ resource: 'widgets.test.example', object: 'default/bad', change: 'added' }),
    },
    expect.objectContaining({ details: expect.objectContaining({ change: 'modified', object: 'default/bad' }) }),
  ]);
});

test('each delta has its origin: list for a list and a relist, watch for an event', async () => {
  const origins: string[] = [];
  informer.addHandler(({ type, object }, origin) => origins.push(`${type} ${object.metadata.name} ${origin}`));
  const stream = await watching('5', [stored('a', '1')]);
  stream.send('ADDED', stored('b', '6'));
  stream.send('ERROR', { kind: 'Status', code: 410, reason: 'Expired' });
  (await server.next({ watch: false })).list('20', [stored('b', '7')]);
  await told(4);
  expect(origins).toEqual(['added a list', 'added b watch', 'modified b list', 'deleted a list']);
});

test('a recreated object whose DELETED event was missed yields a deletion and an addition', async () => {
  const stream = await watching('5', [stored('a', '1', { uid: 'old' })]);
  stream.send('ADDED', stored('a', '6', { uid: 'new' }));
  await told(3);
  expect(deltas).toEqual(['added a @1', 'deleted a @1', 'added a @6']);
});

test('a handler added later receives every stored object, then changes; a removed handler receives nothing', async () => {
  const stream = await watching('5', [stored('a', '1'), stored('b', '2')]);
  await told(2);
  const seen: string[] = [];
  const remove = informer.addHandler(({ type, object }, origin) => {
    seen.push(`${type} ${object.metadata.name} ${origin}`);
  });
  expect(seen).toEqual(['added a list', 'added b list']);
  stream.send('MODIFIED', stored('a', '6'));
  await told(3);
  remove();
  remove();
  stream.send('MODIFIED', stored('a', '7'));
  await told(4);
  expect(seen).toEqual(['added a list', 'added b list', 'modified a watch']);
});

test('a handler added during a list receives each object once; one removed during a list receives no more', async () => {
  const late: string[] = [];
  const removed: string[] = [];
  let added = false;
  informer.addHandler(() => {
    if (added) return;
    added = true;
    informer.addHandler(({ object }) => late.push(object.metadata.name));
    remove();
  });
  const remove = informer.addHandler(({ object }) => removed.push(object.metadata.name));
  await watching('5', [stored('a', '1'), stored('b', '2')]);
  expect(late).toEqual(['a', 'b']);
  expect(removed).toEqual([]);
});

describe('a stored object', () => {
  const managedFields = [{ manager: 'somebody', fieldsV1: { 'f:spec': {} } }];
  const managed = (name: string, resourceVersion: string): Widget =>
    stored(name, resourceVersion, { managedFields } as object);

  test('has no managedFields by default, from a list or a watch', async () => {
    const stream = await watching('5', [managed('a', '1')]);
    stream.send('ADDED', managed('b', '6'));
    await told(2);
    expect([...informer.store.list()]).toEqual([stored('a', '1'), stored('b', '6')]);
    for (const { metadata } of informer.store.list()) expect('managedFields' in metadata).toBe(false);
  });

  test('has managedFields with keepManagedFields', async () => {
    make({ keepManagedFields: true });
    await watching('5', [managed('a', '1')]);
    expect([...informer.store.list()]).toEqual([managed('a', '1')]);
  });

  test('is the result of the transform, or the whole object if the transform throws', async () => {
    make({
      transform: (object) => {
        if (object.metadata.name === 'bad') throw new Error('a defect');
        return { metadata: object.metadata };
      },
    });
    const stream = await watching('5', [{ ...stored('a', '1'), spec: { size: 1 } }]);
    stream.send('ADDED', { ...stored('bad', '6'), spec: { size: 2 } });
    await told(2);
    expect([...informer.store.list()]).toEqual([stored('a', '1'), { ...stored('bad', '6'), spec: { size: 2 } }]);
    expect(log.messages('error')).toEqual(['a transform threw: the object is stored whole']);
  });

  test('is deeply frozen with freeze', async () => {
    make({ freeze: true });
    const labels = { a: 'b' };
    const stream = await watching('5', [stored('a', '1', { labels })]);
    stream.send('MODIFIED', stored('a', '6', { labels }));
    stream.send('MODIFIED', stored('a', '7', { labels: { a: 'c' } }));
    await told(3);
    const object = informer.store.get({ name: 'a', namespace: 'default' });
    expect(object?.metadata.labels).toEqual({ a: 'c' });
    for (const part of [object, object?.metadata, object?.metadata.labels]) expect(Object.isFrozen(part)).toBe(true);
    expect(log.messages('error')).toEqual([]);
  });

  test('shares equal parts with other objects', async () => {
    await watching('5', [stored('a', '1', { labels: { a: 'b' } }), stored('b', '2', { labels: { a: 'b' } })]);
    const [a, b] = [...informer.store.list()];
    expect(a?.metadata.labels).toBe(b?.metadata.labels);
  });
});

describe('an informer limited to', () => {
  const pathOf = (namespace: string): string => `/apis/test.example/v1/namespaces/${namespace}/widgets`;

  test('some namespaces has a watch for each, and one store', async () => {
    make({ namespaces: ['one', 'two'] });
    running = informer.run(stop.signal);
    const streams: Record<string, Stream> = {};
    for (const [namespace, version] of [
      ['one', '5'],
      ['two', '9'],
    ] as const) {
      expect(informer.hasSynced).toBe(false);
      const path = pathOf(namespace);
      (await server.next({ path, watch: false })).list(version, [stored('a', '1', { namespace })]);
      streams[namespace] = (await server.next({ path, watch: true })).stream();
    }
    await informer.synced;
    const names = (namespace: string): string[] =>
      [...informer.store.byNamespace(namespace)].map(({ metadata }) => metadata.name);
    expect([names('one'), names('two'), names('three')]).toEqual([['a'], ['a'], []]);
    expect([informer.hasReached('9', 'two'), informer.hasReached('9', 'one'), informer.hasReached('9')]).toEqual([
      true,
      false,
      false,
    ]);
    // A new list of one leaves the other alone.
    streams.one?.send('ERROR', { kind: 'Status', code: 410, reason: 'Expired' });
    (await server.next({ path: pathOf('one'), watch: false })).list('20', [stored('b', '19', { namespace: 'one' })]);
    await told(4);
    expect([names('one'), names('two')]).toEqual([['b'], ['a']]);
    expect(informer.hasReached('9')).toBe(true);
  });

  test('an empty list of namespaces throws', () => {
    expect(() => make({ namespaces: [] })).toThrow(
      new RangeError('namespaces of widgets.test.example must not be empty, is []: leave it out for all namespaces'),
    );
  });

  test('selected objects requests only those', async () => {
    make({ namespaces: ['one'], labelSelector: 'a in (b,c)', fieldSelector: 'metadata.name!=x' });
    running = informer.run(stop.signal);
    const list = await server.next({ path: pathOf('one') });
    expect(Object.fromEntries(list.query)).toEqual({
      limit: '250',
      labelSelector: 'a in (b,c)',
      fieldSelector: 'metadata.name!=x',
    });
  });
});

test('takes other content under an equal version when the server was restored from a backup', async () => {
  const stream = await watching('50', [stored('a', '1'), stored('b', '9'), stored('c', '40')]);
  stream.send('ERROR', { kind: 'Status', code: 410, reason: 'Expired' });
  (await server.next({ watch: false })).list('60', [stored('a', '1'), stored('b', '9'), stored('c', '40')]);
  const again = (await server.next({ watch: true })).stream();
  expect(deltas.length).toBe(3);
  again.cut();
  (await server.next({ watch: false })).list('30', []);
  // It counts on from the backup: the same numbers, other content.
  (await server.next({ watch: false })).list('30', [stored('a', '1'), { ...stored('b', '9'), spec: { size: 2 } }]);
  await told(5);
  expect(deltas.slice(3)).toEqual(['modified b @9', 'deleted c @40']);
  expect(informer.store.get({ name: 'b', namespace: 'default' })).toMatchObject({ spec: { size: 2 } });
  expect([informer.hasReached('30'), informer.hasReached('31')]).toEqual([true, false]);
});

test('a defective informer stays defective when a watch is accepted, until an event is processed', async () => {
  let transformed: unknown;
  make({ transform: (object) => (object.metadata.name === 'bad' ? (transformed as Widget) : object) });
  const stream = await watching('5', []);
  stream.send('ADDED', stored('bad', '6'));
  await eventually('it is defective', async () => informer.isDefective);
  (await server.next({ watch: false })).list('6', []);
  const second = (await server.next({ watch: true })).stream();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(informer.isDefective).toBe(true);
  transformed = stored('bad', '6');
  second.send('ADDED', stored('bad', '6'));
  await told(1);
  expect(informer.isDefective).toBe(false);
});

test('a complete list ends the defect of an informer', async () => {
  let transformed: unknown;
  make({ transform: (object) => (object.metadata.name === 'bad' ? (transformed as Widget) : object) });
  running = informer.run(stop.signal);
  (await server.next({ watch: false })).list('5', [stored('bad', '1')]);
  await eventually('it is defective', async () => informer.isDefective);
  transformed = stored('bad', '1');
  (await server.next({ watch: false })).list('5', [stored('bad', '1')]);
  await informer.synced;
  expect(informer.isDefective).toBe(false);
});

describe('a missing permission', () => {
  let skippedMs: number;
  beforeEach(() => {
    const now = performance.now.bind(performance);
    skippedMs = 0;
    jest.spyOn(performance, 'now').mockImplementation(() => now() + skippedMs);
  });
  const minuteMs = 60_000;
  const skipMinute = (): void => {
    skippedMs += minuteMs;
  };
  const forbid = async (): Promise<void> => (await server.next({ watch: false })).refuse(403, 'Forbidden');

  test('is reported after the server has denied every request for the given time', async () => {
    running = informer.run(stop.signal);
    await forbid();
    const second = await server.next({ watch: false });
    expect(informer.missingPermission(0)).toMatchObject({ verb: 'list', namespace: undefined });
    skipMinute();
    expect(informer.missingPermission(minuteMs)).toBeUndefined();
    second.refuse(403, 'Forbidden');
    await eventually('it is missing', async () => informer.missingPermission(minuteMs) !== undefined);
  });

  test.each<[string, (exchange: Exchange) => void]>([
    ['fails for another reason', (exchange) => exchange.json(500, { message: 'no' })],
    ['does not serve the kind', (exchange) => exchange.json(404, { message: 'no' })],
    ['begins a list', (exchange) => exchange.list('5', [], 'page 2')],
  ])('is not reported if the server %s in between', async (_, answer) => {
    running = informer.run(stop.signal);
    await forbid();
    const other = await server.next({ watch: false });
    skipMinute();
    answer(other);
    await forbid();
    await server.next({ watch: false });
    expect(informer.missingPermission(0)).toBeDefined();
    expect(informer.missingPermission(minuteMs)).toBeUndefined();
  });
});

test('cannot run twice at once, and a second run resumes from the last resourceVersion', async () => {
  await watching('5', [stored('a', '1')]);
  await expect(informer.run(stop.signal)).rejects.toThrow('the informer of widgets.test.example is already running');
  stop.abort();
  await running;
  stop = new AbortController();
  running = informer.run(stop.signal);
  expect((await server.next({ watch: true })).query.get('resourceVersion')).toBe('5');
});

describe('an object that is nested too deep', () => {
  /** As the API server takes it: up to 10,000 levels. JSON.stringify would overflow. */
  const deepText = (name: string, resourceVersion: string, open = '[', close = ']'): string => {
    const object = {
      ...stored(name, resourceVersion, { labels: { a: 'b' } }),
      kind: 'Widget',
      status: { phase: 'Ok' },
    };
    return `${JSON.stringify(object).slice(0, -1)},"spec":${open.repeat(9900)}1${close.repeat(9900)}}`;
  };

  test.each([
    ['lists', '[', ']'],
    ['maps', '{"a":', '}'],
  ])('of %s stays in the store without that member, and its kind goes on', async (_, open, close) => {
    make({ freeze: true, transform: (widget) => ({ ...widget }) });
    running = informer.run(stop.signal);
    const items = `[${deepText('deep', '1', open, close)},${JSON.stringify(stored('a', '2'))}]`;
    (await server.next({ watch: false })).text(
      200,
      'application/json',
      `{"metadata":{"resourceVersion":"5"},"items":${items}}`,
    );
    const stream = (await server.next({ watch: true })).stream();
    await told(2);
    const deep = informer.store.get({ namespace: 'default', name: 'deep' });
    expect(deep?.metadata).toEqual(stored('deep', '1', { labels: { a: 'b' } }).metadata);
    expect(deep?.status).toEqual({ phase: 'Ok' });
    const problem = 'Widget default/deep: .spec is nested more than 500 levels deep: simplify it, or delete the object';
    expect(() => deep?.spec).toThrow(problem);
    expect(() => ({ ...deep })).toThrow(problem);
    expect(log.lines.filter(({ level }) => level !== 'debug')).toEqual([
      {
        level: 'warn',
        message: 'an object cannot be read whole: its cache entry lacks these members',
        details: { resource: 'widgets.test.example', object: 'default/deep', members: ['spec'] },
      },
    ]);
    expect(informer.statistics().unreadableObjects).toBe(1);

    stream.write(`{"type":"MODIFIED","object":${deepText('deep', '6', open, close)}}\n`);
    stream.send('MODIFIED', stored('a', '7'));
    await told(4);
    stream.send('MODIFIED', stored('deep', '8'));
    stream.write(`{"type":"MODIFIED","object":${deepText('a', '9', open, close)}}\n`);
    stream.write(`{"type":"DELETED","object":${deepText('a', '10', open, close)}}\n`);
    await told(7);
    expect(deltas).toEqual([
      'added deep @1',
      'added a @2',
      'modified deep @6',
      'modified a @7',
      'modified deep @8',
      'modified a @9',
      'deleted a @10',
    ]);
    expect(informer.store.get({ namespace: 'default', name: 'deep' })).toEqual(stored('deep', '8'));
    expect(informer.statistics().unreadableObjects).toBe(0);
    expect(informer.isDefective).toBe(false);
  });
});
