import { once } from 'node:events';
import { createServer, type Http2Server, type ServerHttp2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { Code } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { PetStore as WirePetStore } from '@echoperator/petstore/wire';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { RefusedError } from '../../../../src/kinds/pet/errors.ts';
import { PetStore } from '../../../../src/kinds/pet/pet-store.ts';

const thor = { name: 'Thor', type: 'dog', birthday: '2021-04-01' } as const;

let server: Http2Server;
let sessions: ServerHttp2Session[];
/** Called while the store answers a search. */
let onSearch: () => void;
let updated: string[];
let store: PetStore;

beforeEach(async () => {
  sessions = [];
  updated = [];
  onSearch = () => {};
  server = createServer(
    connectNodeAdapter({
      routes: (router) =>
        router.service(WirePetStore, {
          async *searchPets() {
            yield { id: 'pet-1' };
            onSearch();
          },
          updatePets: ({ pets }) => {
            updated.push(...pets.map(({ id }) => id));
            return {};
          },
        }),
    }),
  );
  server.on('session', (session) => sessions.push(session));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  store = new PetStore({ address: `127.0.0.1:${(server.address() as AddressInfo).port}`, timeoutMs: 5000 });
});

afterEach(async () => {
  store.close();
  for (const session of sessions) session.destroy();
  server.close();
  await once(server, 'close');
});

const update = () => store.update('pet-1', thor, new AbortController().signal);

test('an update goes to the store in which a search has found the pet', async () => {
  expect(await Promise.all([update(), update()])).toEqual([true, true]);
  expect(updated).toEqual(['pet-1', 'pet-1']);
  expect(sessions).toHaveLength(1);
});

test('updates that wait for a search are not sent on another connection: another store may be behind it', async () => {
  // The first update has a search of its own; the others share the second one.
  let searches = 0;
  onSearch = () => {
    searches += 1;
    if (searches === 2) sessions[0]?.goaway();
  };
  const [, ...others] = await Promise.allSettled([update(), update(), update()]);
  expect(others).toMatchObject([{ reason: { code: Code.Unavailable } }, { reason: { code: Code.Unavailable } }]);
  expect(updated).toEqual(['pet-1']);
  expect(await update()).toBe(true);
});

test('a name that no message can carry is refused before it is sent: the store would seem to be full', async () => {
  const { signal } = new AbortController();
  const [longest, tooLong] = [100_000, 100_001].map((length) => ({ ...thor, name: 'é'.repeat(length) }));
  if (longest === undefined || tooLong === undefined) throw new Error('unreachable');
  const refused = new RefusedError('the name of the pet has 200002 bytes: the operator sends at most 200000');
  await expect(store.find(tooLong, signal)).rejects.toThrow(refused);
  await expect(store.add(tooLong, 'r', signal)).rejects.toThrow(refused);
  expect(sessions).toHaveLength(0);
  expect(await store.find(longest, signal)).toEqual([]);
});
