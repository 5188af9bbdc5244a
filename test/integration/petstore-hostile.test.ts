import { once } from 'node:events';
import { type ClientHttp2Session, type ClientSessionOptions, connect } from 'node:http2';
import { connect as connectSocket, type Socket } from 'node:net';
import { create, toBinary } from '@bufbuild/protobuf';
import { createClient } from '@connectrpc/connect';
import { Health, openChannel, PetSchema, PetStore, type PetStoreChannel, PetType } from '@echoperator/petstore/wire';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import { inTime } from '../../testkit/in-time.ts';
import { describeOnLinux } from '../../testkit/on-linux.ts';
import { PetStoreProcess } from '../../testkit/pet-store-process.ts';
import { worstMessages } from './environment/worst-messages.ts';

const mebibyte = 2 ** 20;

/** The largest message that the pet store takes. */
const maxMessageBytes = 256 * 1024;

/** Of an encoded error text. Clients accept 64 KiB of trailers. */
const maxTextLength = 40_000;

/** The limit of the container's memory in the chart. */
const memoryLimit = 256 * mebibyte;

let store: PetStoreProcess;
let sessions: ClientHttp2Session[];
let sockets: Socket[];
let channel: PetStoreChannel;

beforeEach(async () => {
  [sessions, sockets] = [[], []];
  store = await PetStoreProcess.start();
  channel = openChannel({ address: store.address, timeoutMs: 60_000 });
});
afterEach(async () => {
  channel.close();
  for (const session of sessions) session.destroy();
  for (const socket of sockets) socket.destroy();
  await store.stop();
});

async function open(localAddress = '127.0.0.1'): Promise<ClientHttp2Session> {
  const session = connect(`http://${store.address}`, { localAddress } as ClientSessionOptions);
  session.on('error', () => {});
  sessions.push(session);
  await inTime('a connection', once(session, 'connect'));
  return session;
}

const framed = (message: Uint8Array): Buffer => {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
};

const startRequest = (session: ClientHttp2Session, path: string) => {
  const stream = session.request({
    ...{ ':method': 'POST', ':path': path },
    ...{ 'content-type': 'application/grpc', te: 'trailers' },
  });
  stream.on('error', () => {});
  return stream;
};

/** @returns the code and the encoded text of the response; undefined if the store sent none */
async function answerTo(session: ClientHttp2Session, path: string, message: Uint8Array) {
  const stream = startRequest(session, path);
  let code: unknown;
  let text = '';
  const read = (headers: Record<string, unknown>): void => {
    if (headers['grpc-status'] === undefined) return;
    code = headers['grpc-status'];
    text = String(headers['grpc-message'] ?? '');
  };
  stream.on('response', read).on('trailers', read).resume();
  stream.end(framed(message));
  await inTime(`the end of ${path}`, once(stream, 'close'));
  return code === undefined ? undefined : { code, text };
}

const pathOf = (method: string): string => `/${PetStore.typeName}/${method}`;

async function metric(name: string): Promise<number> {
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(await store.metrics())?.[1]);
}

/** The longest pause of the store's event loop during some work, in milliseconds. */
async function pauseDuring(work: () => Promise<unknown>): Promise<number> {
  // Each scrape starts a new measurement.
  await metric('nodejs_eventloop_lag_max_seconds');
  await work();
  return (await metric('nodejs_eventloop_lag_max_seconds')) * 1000;
}

/**
 * Another program may delay the store. So each attempt compares the work with harmless work beside it.
 *
 * @returns the pauses if the work paused the store for too long in every one of some attempts
 */
async function longPause(work: () => Promise<unknown>, harmless: () => Promise<unknown>): Promise<string | undefined> {
  const pauses: string[] = [];
  while (pauses.length < 4) {
    const ms = await pauseDuring(work);
    if (ms <= negligiblePauseMs) return undefined;
    const harmlessMs = await pauseDuring(harmless);
    if (ms <= Math.min(3 * harmlessMs, 1000)) return undefined;
    pauses.push(`${Math.round(ms)} ms, harmless: ${Math.round(harmlessMs)} ms`);
  }
  return pauses.join('; ');
}

const isServed = () => createClient(Health, channel.transport).check({});

/** As many pets as one request may have, in about as many bytes as a message may have. */
const harmlessPets = (): Buffer => {
  const birthday = { year: 2021, month: 4, day: 1 };
  const pet = toBinary(PetSchema, create(PetSchema, { name: 'x'.repeat(240), type: PetType.PTCanine, birthday }));
  const field = Buffer.concat([Buffer.of(10), Buffer.of((pet.length % 128) | 128, Math.floor(pet.length / 128)), pet]);
  return Buffer.alloc(field.length * 1000, field);
};

const addingPets = (session: ClientHttp2Session) => {
  const pets = harmlessPets();
  return async () => expect(await answerTo(session, pathOf('AddPets'), pets)).toMatchObject({ code: '0' });
};

/** Shorter pauses are noise. */
const negligiblePauseMs = 100;

describe('the worst legal requests', () => {
  test.each(PetStore.methods)('of $name do not block the store', async ({ name, input }) => {
    const session = await open();
    const harmless = addingPets(session);
    const slow: string[] = [];
    const unanswered: string[] = [];
    for (const { what, bytes } of worstMessages(input, maxMessageBytes - 16)) {
      const pause = await longPause(async () => {
        const [answer] = await Promise.all([answerTo(session, pathOf(name), bytes), isServed()]);
        if (answer === undefined || answer.text.length > maxTextLength) unanswered.push(what);
      }, harmless);
      if (pause !== undefined) slow.push(`${what}: ${pause}`);
    }
    expect({ slow, unanswered }).toEqual({ slow: [], unanswered: [] });
    expect(await metric('process_resident_memory_bytes')).toBeLessThan(memoryLimit);
    // While it handles one of them.
    const [worst] = worstMessages(input, maxMessageBytes - 16);
    startRequest(session, pathOf(name)).end(framed(worst?.bytes ?? Buffer.of()));
    expect(await store.stop()).toMatchObject({ exitCode: 0 });
  });

  test('of reflection do not block the store', async () => {
    const session = await open();
    const path = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';
    const symbol = Buffer.alloc(maxMessageBytes - 16, '.');
    const length = Buffer.of(
      (symbol.length % 128) | 128,
      (Math.floor(symbol.length / 128) % 128) | 128,
      symbol.length >> 14,
    );
    const ask = () => answerTo(session, path, Buffer.concat([Buffer.of(4 * 8 + 2), length, symbol]));
    expect(await longPause(ask, addingPets(session))).toBeUndefined();
    await isServed();
  });
});

describeOnLinux('a client that takes all it can', () => {
  const stranger = '127.0.0.2';

  /** The store keeps its memory, and serves another client. */
  async function expectService(): Promise<void> {
    await isServed();
    const pet = { name: 'Thor', type: PetType.PTCanine, birthday: { year: 2021, month: 4, day: 1 } };
    await createClient(PetStore, channel.transport).addPets({ pets: [pet] });
    expect(await metric('process_resident_memory_bytes')).toBeLessThan(memoryLimit);
  }

  test('with requests that it does not finish does not exhaust the memory', async () => {
    const cancelled: string[] = [];
    for (let each = 0; each < 120; each += 1) {
      const stream = startRequest(await open(stranger), pathOf('AddPets'));
      stream.on('close', () => cancelled.push(`${stream.rstCode}`));
      stream.write(framed(Buffer.alloc(maxMessageBytes)).subarray(0, maxMessageBytes - 100));
      if (each % 30 === 29) await expectService();
    }
    // NGHTTP2_ENHANCE_YOUR_CALM
    await eventually('the oldest requests are cancelled', async () => cancelled.includes('11'));
    await expectService();
  });

  test('with streams that never end does not exhaust the memory', async () => {
    let ended = 0;
    for (let each = 0; each < 20; each += 1) {
      const session = await open(stranger);
      if (session.remoteSettings.maxConcurrentStreams === undefined) await once(session, 'remoteSettings');
      expect(session.remoteSettings.maxConcurrentStreams).toBe(100);
      for (let more = 0; more < 100; more += 1) {
        const stream = startRequest(session, '/grpc.health.v1.Health/Watch');
        stream.on('close', () => (ended += 1)).resume();
        stream.end(framed(Buffer.of()));
      }
      await expectService();
    }
    await eventually('the oldest streams are cancelled', async () => ended > 0);
    await expectService();
  });

  test('with idle connections does not keep another client out', async () => {
    let closed = 0;
    for (let each = 0; each < 600; each += 1) {
      const [, port = ''] = store.address.split(':');
      const socket = connectSocket({ host: '127.0.0.1', port: Number(port), localAddress: stranger });
      socket
        .resume()
        .on('error', () => {})
        .on('close', () => (closed += 1));
      sockets.push(socket);
      if (each % 100 === 99) await expectService();
    }
    await eventually('the oldest connections are closed', async () => closed >= 600 - 128);
    await expectService();
  });
});
