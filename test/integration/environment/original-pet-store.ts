import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Http2Server, type Http2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { Code, ConnectError } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { dayText, type Pet, PetStore } from '../../../src/petstore-wire/index.ts';

/**
 * A pet store as the tutorial's behaves, where that differs from ours: it keeps pets in memory, knows nothing of the names of
 * requests, and calls an update of a pet that is not there an internal error.
 */
export class OriginalPetStore implements AsyncDisposable {
  readonly port: number;
  readonly pets = new Map<string, Pet>();
  readonly #server: Http2Server;
  readonly #sessions = new Set<Http2Session>();

  private constructor(server: Http2Server) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    server.on('session', (session) => this.#sessions.add(session));
  }

  static async start(): Promise<OriginalPetStore> {
    const stores: OriginalPetStore[] = [];
    const pets = (): Map<string, Pet> => stores[0]?.pets ?? new Map();
    const server = createServer(
      connectNodeAdapter({
        routes: (router) =>
          router.service(PetStore, {
            addPets: (request) => ({
              ids: request.pets.map((pet) => {
                const id = randomUUID();
                pets().set(id, { ...pet, id });
                return id;
              }),
            }),
            updatePets: (request) => {
              for (const pet of request.pets) {
                if (!pets().has(pet.id)) throw new ConnectError(`pet with ID(${pet.id}) not found`, Code.Internal);
                pets().set(pet.id, pet);
              }
              return {};
            },
            deletePets: ({ ids }) => {
              for (const id of ids) pets().delete(id);
              return {};
            },
            async *searchPets({ names, types, birthdateRange }) {
              for (const pet of [...pets().values()]) {
                const born = pet.birthday && dayText(pet.birthday);
                const isIn =
                  birthdateRange?.start === undefined ||
                  birthdateRange.end === undefined ||
                  (born !== undefined && born >= dayText(birthdateRange.start) && born < dayText(birthdateRange.end));
                const isNamed = names.length === 0 || names.includes(pet.name);
                if (isIn && isNamed && (types.length === 0 || types.includes(pet.type))) yield pet;
              }
            },
            changeSampler: () => ({}),
          }),
      }),
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const store = new OriginalPetStore(server);
    stores.push(store);
    return store;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const session of this.#sessions) session.destroy();
    await closed;
  }
}
