import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { Informer } from '../../../../src/runtime/cache/index.ts';
import { HttpClient, Transport } from '../../../../src/runtime/client/index.ts';
import { eventually } from '../../../integration/environment/eventually.ts';
import { RecordingLog } from '../../environment/recording-log.ts';
import { ScriptedServer, type Stream } from '../../environment/scripted-server.ts';
import { stored, Widget } from '../../environment/widgets.ts';

let server: ScriptedServer;
let transport: Transport;
let stop: AbortController;
let log: RecordingLog;
let informer: Informer<Widget>;
let running: Promise<void> | undefined;
/** What a handler was told: `added a @1`. */
let deltas: string[];

beforeEach(async () => {
  // Chance as it never is makes pauses a hundredth of their base: 8 ms after a first failure.
  jest.spyOn(Math, 'random').mockReturnValue(-0.49);
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
  stop = new AbortController();
  log = new RecordingLog();
  informer = new Informer({ client: new HttpClient(transport, 'tester'), kind: Widget, log });
  deltas = [];
  running = undefined;
  informer.addHandler(({ type, object }) => {
    deltas.push(`${type} ${object.metadata.name} @${object.metadata.resourceVersion}`);
  });
});
afterEach(async () => {
  stop.abort();
  await running;
  await transport.close();
  await server.close();
  jest.restoreAllMocks();
});

async function watching(resourceVersion: string, items: readonly Widget[]): Promise<Stream> {
  running = informer.run(stop.signal);
  (await server.next({ watch: false })).list(resourceVersion, items);
  return (await server.next({ watch: true })).stream();
}

const told = (count: number): Promise<boolean> => eventually(`${count} deltas`, async () => deltas.length >= count);

test('has synced when it holds a whole list, and not before', async () => {
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

test('tells each handler of each change, in order, after the store has it', async () => {
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

test('tells nobody of what the store holds already, nor of bookmarks', async () => {
  const stream = await watching('5', [stored('a', '1')]);
  stream.send('MODIFIED', stored('a', '1'));
  stream.send('BOOKMARK', { metadata: { resourceVersion: '9' } });
  await eventually('the bookmark', async () => informer.hasReached('9'));
  expect(deltas).toEqual(['added a @1']);
  expect(informer.store.size).toBe(1);
});

test('tells of what was deleted, changed and made again while it could not watch', async () => {
  const stream = await watching('5', [stored('kept', '1'), stored('gone', '2'), stored('again', '3', { uid: 'old' })]);
  stream.send('ERROR', { kind: 'Status', code: 410, reason: 'Expired' });
  const list = await server.next({ watch: false });
  // While it is away the store keeps what it had.
  expect([informer.store.size, informer.hasSynced]).toEqual([3, true]);
  list.list('50', [stored('kept', '1'), stored('again', '40', { uid: 'new' }), stored('new', '45')]);
  await told(7);
  expect(deltas.slice(3)).toEqual(['deleted again @3', 'added again @40', 'added new @45', 'deleted gone @2']);
});

test('knows how far it has come: by a list, an event, a deletion and a bookmark', async () => {
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

test('calls back at each step, when it has come there', async () => {
  const reached: string[] = [];
  informer.onProgress(() => {
    const version = ['20', '10', '6', '5'].find((candidate) => informer.hasReached(candidate));
    reached.push(`${version} after ${deltas.length}`);
  });
  const stream = await watching('5', [stored('a', '1')]);
  stream.send('MODIFIED', stored('a', '6'));
  stream.send('BOOKMARK', { metadata: { resourceVersion: '10' } });
  stream.send('ERROR', { kind: 'Status', code: 410, reason: 'Expired' });
  (await server.next({ watch: false })).list('20', [stored('a', '6')]);
  await eventually('the new list', async () => informer.hasReached('20'));
  expect(reached).toEqual(['5 after 1', '6 after 2', '10 after 2', '20 after 2']);
});

test('indexes what it holds', async () => {
  informer.addIndex('uid', ({ metadata }) => [metadata.uid]);
  await watching('5', [stored('a', '1')]);
  expect([...informer.store.byIndex('uid', 'uid-a')]).toHaveLength(1);
});

test('a handler that throws has missed a change, which is told; nobody else has', async () => {
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
