import { metadataOnly, selected } from '@echoperator/runtime';
import {
  isExpired,
  isNotFound,
  type Patch,
  type SubresourceOptions,
  type WatchEvent,
} from '@echoperator/runtime/client';
import { Deployment } from '@echoperator/runtime/kinds';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { Planet, stored, Widget, widgetsPath } from '../../../../testkit/widgets.ts';
import { ScriptedServer, type Stream } from '../../environment/scripted-server.ts';

let server: ScriptedServer;
let transport: Transport;
let client: HttpClient;

beforeEach(async () => {
  server = await ScriptedServer.start();
  transport = new Transport(server.connection, { userAgent: 'test/1' });
  client = new HttpClient(transport, 'tester');
});
afterEach(async () => {
  await transport.close();
  await server.close();
});

const path = '/apis/test.example/v1/namespaces/default/widgets';
const key = { name: 'a', namespace: 'default' };

describe('requests', () => {
  test('get', async () => {
    const answer = client.get(Widget, key);
    const request = await server.next({ method: 'GET', path: `${path}/a` });
    request.json(200, stored('a', '1'));
    expect(await answer).toEqual(stored('a', '1'));
  });

  test('get of a missing object', async () => {
    const answer = client.get(Widget, key).catch((error: unknown) => error);
    (await server.next()).refuse(404, 'NotFound');
    expect(isNotFound(await answer)).toBe(true);
  });

  test('an invalid key is rejected without a request', async () => {
    await expect(client.get(Widget, { name: 'a' })).rejects.toThrow(TypeError);
    await expect(client.delete(Planet, { name: '' })).rejects.toThrow(TypeError);
    await expect(client.apply(Widget, { metadata: { name: 'a' } })).rejects.toThrow(TypeError);
    await expect(client.mergeStatus(Widget, { name: 'a', resourceVersion: '1' }, {})).rejects.toThrow(TypeError);
    await expect(client.create(Widget, { metadata: { name: 'a' } })).rejects.toThrow(TypeError);
    await expect(client.create(Planet, { metadata: key })).rejects.toThrow(TypeError);
    expect(server.unclaimed).toBe(0);
  });

  test('list with all options', async () => {
    const options = { namespace: 'default', labelSelector: 'a=b', fieldSelector: 'c=d', limit: 2, continue: 'token' };
    const answer = client.list(Widget, options);
    const request = await server.next({ method: 'GET', path });
    expect(Object.fromEntries(request.query)).toEqual({
      labelSelector: 'a=b',
      fieldSelector: 'c=d',
      limit: '2',
      continue: 'token',
    });
    request.list('7', [stored('a', '1')], 'more');
    expect(await answer).toEqual({ metadata: { resourceVersion: '7', continue: 'more' }, items: [stored('a', '1')] });
  });

  test('list of every namespace, without options', async () => {
    const answer = client.list(Widget);
    const request = await server.next({ method: 'GET', path: widgetsPath });
    expect([...request.query]).toEqual([]);
    request.list('7', []);
    expect((await answer).items).toEqual([]);
  });

  test('create with dryRun and strict field validation', async () => {
    const answer = client.create(Widget, { metadata: key }, { dryRun: true, fieldValidation: 'Strict' });
    const request = await server.next({ method: 'POST', path });
    expect(Object.fromEntries(request.query)).toEqual({
      fieldManager: 'tester',
      dryRun: 'All',
      fieldValidation: 'Strict',
    });
    request.json(201, stored('a', '1'));
    await answer;
  });

  test('create', async () => {
    const answer = client.create(Widget, { metadata: key, spec: { size: 1 } });
    const request = await server.next({ method: 'POST', path });
    expect(Object.fromEntries(request.query)).toEqual({ fieldManager: 'tester' });
    expect(request.body).toEqual({
      apiVersion: 'test.example/v1',
      kind: 'Widget',
      metadata: key,
      spec: { size: 1 },
    });
    request.json(201, stored('a', '1'));
    expect(await answer).toEqual(stored('a', '1'));
  });

  test.each([
    [{}, 'tester', 'false'],
    [{ force: true }, 'tester', 'true'],
    [{ fieldManager: 'other' }, 'other', 'false'],
  ])('apply with %j', async (options, fieldManager, force) => {
    const answer = client.apply(Widget, { metadata: key }, options);
    const request = await server.next({ method: 'PATCH', path: `${path}/a` });
    expect(Object.fromEntries(request.query)).toEqual({ fieldManager, force });
    expect(request.headers['content-type']).toBe('application/apply-patch+yaml');
    expect(request.body).toEqual({ apiVersion: 'test.example/v1', kind: 'Widget', metadata: key });
    request.json(200, stored('a', '2'));
    await answer;
  });

  test('mergeStatus sends the resourceVersion that the status was computed from', async () => {
    const answer = client.mergeStatus(Widget, { ...key, resourceVersion: '5' }, { phase: null });
    const request = await server.next({ method: 'PATCH', path: `${path}/a/status` });
    expect(request.headers['content-type']).toBe('application/merge-patch+json');
    expect(request.body).toEqual({ metadata: { resourceVersion: '5' }, status: { phase: null } });
    expect(Object.fromEntries(request.query)).toEqual({ fieldManager: 'tester' });
    request.json(200, stored('a', '6'));
    expect(await answer).toEqual(stored('a', '6'));
  });

  test('mergeStatus takes only members of the status', () => {
    const versioned = { ...key, resourceVersion: '5' };
    // @ts-expect-error a misspelt member
    expect(() => client.mergeStatus(Deployment, versioned, { redyReplicas: 2 })).toBeInstanceOf(Function);
    // @ts-expect-error a value of another type
    expect(() => client.mergeStatus(Deployment, versioned, { readyReplicas: '2' })).toBeInstanceOf(Function);
  });

  test('delete of an object that is gone at once, and of one that terminates later', async () => {
    const gone = client.delete(Widget, key);
    const request = await server.next({ method: 'DELETE', path: `${path}/a` });
    expect(request.body).toEqual({
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      propagationPolicy: 'Background',
      preconditions: {},
    });
    request.json(200, { kind: 'Status', status: 'Success' });
    expect(await gone).toBeUndefined();

    const waiting = client.delete(Widget, key, { uid: 'u', resourceVersion: '3', propagationPolicy: 'Foreground' });
    const second = await server.next({ method: 'DELETE' });
    expect(second.body).toMatchObject({
      propagationPolicy: 'Foreground',
      preconditions: { uid: 'u', resourceVersion: '3' },
    });
    second.json(200, { kind: 'Widget', ...stored('a', '4', { deletionTimestamp: '2026-01-01T00:00:00Z' }) });
    expect((await waiting)?.metadata.resourceVersion).toBe('4');
  });

  test('apply sends its preconditions in the metadata', async () => {
    const answer = client.apply(Widget, { metadata: key }, { uid: 'u', resourceVersion: '3' });
    const request = await server.next({ method: 'PATCH' });
    expect(request.body).toMatchObject({ metadata: { ...key, uid: 'u', resourceVersion: '3' } });
    request.refuse(409, 'Conflict');
    await expect(answer).rejects.toMatchObject({ reason: 'Conflict' });
  });

  test('update', async () => {
    const answer = client.update(Widget, stored('a', '5'));
    const request = await server.next({ method: 'PUT', path: `${path}/a` });
    expect(Object.fromEntries(request.query)).toEqual({ fieldManager: 'tester' });
    expect(request.body).toEqual({ apiVersion: 'test.example/v1', kind: 'Widget', ...stored('a', '5') });
    request.json(200, stored('a', '6'));
    expect(await answer).toEqual(stored('a', '6'));
  });

  test.each<[Patch, SubresourceOptions, string, string]>([
    [{ type: 'merge', body: { spec: null } }, {}, `${path}/a`, 'application/merge-patch+json'],
    [{ type: 'json', body: [{ op: 'remove', path: '/spec' }] }, {}, `${path}/a`, 'application/json-patch+json'],
    [{ type: 'json', body: [] }, { subresource: 'status' }, `${path}/a/status`, 'application/json-patch+json'],
    [{ type: 'merge', body: {} }, { subresource: 'scale' }, `${path}/a/scale`, 'application/merge-patch+json'],
  ])('patch %j %j', async (patch, options, expected, contentType) => {
    const answer = client.patch(Widget, key, patch, options);
    const request = await server.next({ method: 'PATCH', path: expected });
    expect(request.headers['content-type']).toBe(contentType);
    expect(request.body).toEqual(patch.body);
    request.json(200, stored('a', '6'));
    await answer;
  });

  test('requests for metadata use the Accept header', async () => {
    const one = client.getMetadata(Widget, key, { resourceVersion: '0' });
    const request = await server.next({ method: 'GET', path: `${path}/a` });
    expect(request.headers.accept).toBe('application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1');
    expect(request.query.get('resourceVersion')).toBe('0');
    request.json(200, stored('a', '1'));
    await one;
    const many = client.listMetadata(Widget, { limit: 1 });
    const list = await server.next({ method: 'GET', path: widgetsPath });
    expect(list.headers.accept).toBe('application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1');
    list.list('7', [stored('a', '1')]);
    expect((await many).items).toHaveLength(1);
  });

  test('a kind of which only the metadata is wanted is read as metadata, and written as the kind', async () => {
    const WidgetMetadata = metadataOnly(Widget);
    const one = client.get(WidgetMetadata, key);
    const get = await server.next({ method: 'GET', path: `${path}/a` });
    expect(get.headers.accept).toBe('application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1');
    get.json(200, stored('a', '1'));
    const object = await one;
    const many = client.list(WidgetMetadata, { dropManagedFields: true });
    const list = await server.next({ method: 'GET', path: widgetsPath });
    expect(list.headers.accept).toBe(
      'application/json;drop=metadata.managedFields;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1',
    );
    expect(list.query.size).toBe(0);
    list.list('7', [stored('a', '1')]);
    await many;
    const applied = client.apply(WidgetMetadata, { metadata: { ...key, labels: { a: 'b' } } });
    const apply = await server.next({ method: 'PATCH', path: `${path}/a` });
    expect(apply.headers.accept).toBe('application/json');
    expect(apply.body).toMatchObject({ apiVersion: 'test.example/v1', kind: 'Widget' });
    apply.json(200, stored('a', '2'));
    await applied;
    await expect(client.update(WidgetMetadata, object)).rejects.toThrow('update of widgets.test.example');
    expect(server.unclaimed).toBe(0);
  });

  test('managedFields are dropped by a parameter, and a server that refuses it may take the plain media type', async () => {
    const answer = client.list(Widget, { dropManagedFields: true });
    const request = await server.next({ method: 'GET', path: widgetsPath });
    expect(request.headers.accept).toBe('application/json;drop=metadata.managedFields,application/json');
    request.list('7', []);
    await answer;
  });

  test('lists, watches and deletions of a selected kind are limited to it', async () => {
    const Small = selected(selected(Widget, { labelSelector: 'size=small' }), { fieldSelector: 'metadata.name=a' });
    const list = client.list(Small, { labelSelector: 'a=b' });
    const request = await server.next({ method: 'GET', path: widgetsPath });
    const query = { labelSelector: 'size=small,a=b', fieldSelector: 'metadata.name=a' };
    expect(Object.fromEntries(request.query)).toEqual(query);
    request.list('7', []);
    await list;
    const deletion = client.deleteCollection(Small, { namespace: 'default' });
    const deleted = await server.next({ method: 'DELETE', path });
    expect(Object.fromEntries(deleted.query)).toEqual({ ...query, labelSelector: 'size=small' });
    deleted.list('7', []);
    await deletion;
    const stop = new AbortController();
    const events = client.watch(Small, { timeoutSeconds: 300, signal: stop.signal });
    const first = events.next().catch(() => {});
    const watch = await server.next({ watch: true });
    expect(watch.query.get('labelSelector')).toBe('size=small');
    stop.abort();
    await first;
  });

  test.each(['list', 'listMetadata'] as const)(
    '%s returns an empty list if the server sends null items',
    async (method) => {
      const answer = client[method](Widget);
      (await server.next()).json(200, { metadata: { resourceVersion: '5' }, items: null });
      expect(await answer).toEqual({ metadata: { resourceVersion: '5' }, items: [] });
    },
  );

  test('deleteCollection', async () => {
    const options = { labelSelector: 'a=b', gracePeriodSeconds: 0 };
    const answer = client.deleteCollection(Widget, { namespace: 'default', ...options });
    const request = await server.next({ method: 'DELETE', path });
    expect(Object.fromEntries(request.query)).toEqual({ labelSelector: 'a=b' });
    expect(request.body).toEqual({
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      propagationPolicy: 'Background',
      gracePeriodSeconds: 0,
    });
    request.list('7', [stored('a', '1')]);
    expect(await answer).toEqual([stored('a', '1')]);

    const cluster = client.deleteCollection(Planet);
    (await server.next({ method: 'DELETE' })).json(200, { kind: 'Status', apiVersion: 'v1', status: 'Success' });
    expect(await cluster).toEqual([]);
    await expect(client.deleteCollection(Widget)).rejects.toThrow(TypeError);
  });

  test.each<[string, (signal: AbortSignal) => Promise<unknown>]>([
    ['update', (signal) => client.update(Widget, stored('a', '1'), { signal })],
    ['patch', (signal) => client.patch(Widget, key, { type: 'merge', body: {} }, { signal })],
    ['getMetadata', (signal) => client.getMetadata(Widget, key, { signal })],
    ['listMetadata', (signal) => client.listMetadata(Widget, { signal })],
    ['deleteCollection', (signal) => client.deleteCollection(Widget, { namespace: 'default', signal })],
    ['get', (signal) => client.get(Widget, key, { signal })],
    ['list', (signal) => client.list(Widget, { signal })],
    ['create', (signal) => client.create(Widget, { metadata: key }, { signal })],
    ['apply', (signal) => client.apply(Widget, { metadata: key }, { signal })],
    ['mergeStatus', (signal) => client.mergeStatus(Widget, { ...key, resourceVersion: '1' }, {}, { signal })],
    ['delete', (signal) => client.delete(Widget, key, { signal })],
  ])('%s rejects when the signal aborts', async (_, request) => {
    const controller = new AbortController();
    const ended = expect(request(controller.signal)).rejects.toThrow('enough');
    await server.next();
    controller.abort(new Error('enough'));
    await ended;
  });
});

describe('a watch', () => {
  let controller: AbortController;
  let seen: WatchEvent<Widget>[];
  let ended: Promise<unknown>;

  /** Begins to watch; `ended` resolves with what the loop threw, undefined if it came to its end. */
  async function open(): Promise<Stream> {
    controller = new AbortController();
    seen = [];
    const events = client.watch(Widget, { resourceVersion: '5', timeoutSeconds: 300, signal: controller.signal });
    ended = (async () => {
      for await (const event of events) seen.push(event);
    })().catch((error: unknown) => error);
    const request = await server.next({ method: 'GET', path: widgetsPath, watch: true });
    expect(Object.fromEntries(request.query)).toEqual({
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion: '5',
      timeoutSeconds: '300',
    });
    return request.stream();
  }

  test('yields the events in order until the server ends it', async () => {
    const stream = await open();
    stream.send('ADDED', stored('a', '6'));
    stream.send('BOOKMARK', { metadata: { resourceVersion: '7' } });
    stream.send('DELETED', stored('a', '8'));
    stream.end();
    expect(await ended).toBeUndefined();
    expect(seen.map(({ type, object }) => `${type} ${object.metadata.resourceVersion}`)).toEqual([
      'ADDED 6',
      'BOOKMARK 7',
      'DELETED 8',
    ]);
  });

  test('drops an incomplete last line', async () => {
    const stream = await open();
    stream.send('ADDED', stored('a', '6'));
    stream.write('{"type":"MODIFIED","obj');
    stream.end();
    expect(await ended).toBeUndefined();
    expect(seen).toHaveLength(1);
  });

  test('throws an ERROR event as ApiError, for example for an expired resourceVersion', async () => {
    const stream = await open();
    stream.send('ADDED', stored('a', '6'));
    stream.send('ERROR', { kind: 'Status', code: 410, reason: 'Expired', message: 'too old resource version: 5 (9)' });
    const error = await ended;
    expect(isExpired(error)).toBe(true);
    expect(error).toMatchObject({ message: `WATCH ${widgetsPath}: 410 Expired: too old resource version: 5 (9)` });
    expect(seen).toHaveLength(1);
  });

  test('throws an ERROR event without a code as a 500', async () => {
    const stream = await open();
    stream.send('ERROR', { message: 'etcd is away' });
    expect(await ended).toMatchObject({ name: 'ApiError', code: 500, reason: 'Unknown' });
  });

  test('throws when the connection breaks', async () => {
    const stream = await open();
    stream.send('ADDED', stored('a', '6'));
    stream.write('{"type":');
    await eventually('the event is there', async () => seen.length === 1);
    stream.cut();
    expect(await ended).toBeInstanceOf(Error);
    expect(seen).toHaveLength(1);
  });

  test('throws at a line that is not JSON', async () => {
    const stream = await open();
    stream.write('<html>\n');
    expect(await ended).toBeInstanceOf(SyntaxError);
  });

  test('throws the reason when the signal aborts', async () => {
    await open();
    controller.abort();
    expect(await ended).toMatchObject({ name: 'AbortError' });
  });

  test('can send the initial events, and only the metadata', async () => {
    server.streamsLists = true;
    const { signal } = new AbortController();
    const events = client.watchMetadata(Widget, { sendInitialEvents: true, timeoutSeconds: 300, signal });
    const iterator = events[Symbol.asyncIterator]();
    const first = iterator.next();
    const request = await server.next({ watch: true });
    expect(request.headers.accept).toBe('application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1');
    expect(Object.fromEntries(request.query)).toEqual({
      watch: 'true',
      allowWatchBookmarks: 'true',
      sendInitialEvents: 'true',
      resourceVersionMatch: 'NotOlderThan',
      timeoutSeconds: '300',
    });
    const stream = request.stream();
    stream.send('ADDED', stored('a', '6'));
    expect((await first).value).toMatchObject({ type: 'ADDED' });
    await iterator.return?.(undefined);
  });

  test('closes the connection when the consumer stops iterating', async () => {
    const { signal } = new AbortController();
    const reading = (async () => {
      for await (const event of client.watch(Widget, { resourceVersion: '5', timeoutSeconds: 300, signal }))
        return event;
      return undefined;
    })();
    const request = await server.next({ watch: true });
    request.stream().send('ADDED', stored('a', '6'));
    expect(await reading).toMatchObject({ type: 'ADDED' });
    await request.closed;
  });
});
