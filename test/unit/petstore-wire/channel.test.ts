import { once } from 'node:events';
import { createServer, type Http2Server, type ServerHttp2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { openChannel, type PetStoreChannel } from '../../../src/petstore-wire/channel.ts';
import { PetStore } from '../../../src/petstore-wire/index.ts';

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
  channel = openChannel({ address: `127.0.0.1:${port}`, timeoutMs: 100 });
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

test('a connection on which nothing came back in the time of a call is left, and the next call makes another', async () => {
  const store = createClient(PetStore, channel.transport);
  expect(await codeOf(store.deletePets({ ids: ['1'] }))).toBe(Code.DeadlineExceeded);
  expect(sessions).toHaveLength(1);
  expect(await codeOf(store.deletePets({ ids: ['1'] }))).toBe(Code.DeadlineExceeded);
  expect(sessions).toHaveLength(2);
  const search = async () => {
    for await (const pet of store.searchPets({})) expect(pet).toBeUndefined();
  };
  expect(await codeOf(search())).toBe(Code.DeadlineExceeded);
  expect(sessions).toHaveLength(3);
  expect(await codeOf(store.deletePets({ ids: ['1'] }))).toBe(Code.DeadlineExceeded);
  expect(sessions).toHaveLength(4);
});
