import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Http2Server, type Http2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { DateSchema, dayText, type Pet, PetSchema, PetStore, PetType } from '@echoperator/petstore/wire';

/**
 * A pet store with the behaviour of the tutorial's where it differs from ours: it keeps pets in memory, ignores request
 * ids, and answers an update of an unknown pet with INTERNAL without releasing its lock. After that it answers no call.
 */
export class OriginalPetStore implements AsyncDisposable {
  readonly port: number;
  readonly pets = new Map<string, Pet>();
  readonly #server: Http2Server;
  readonly #sessions = new Set<Http2Session>();
  #isWedged = false;

  private constructor(server: Http2Server) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    server.on('session', (session) => this.#sessions.add(session));
  }

  /** Whether the lock was not released. Then every call waits until its client gives up. */
  get isWedged(): boolean {
    return this.#isWedged;
  }

  /** Simulates a kill and a restart of the process: no pets, no lock, no connections. */
  restart(): void {
    this.pets.clear();
    this.#isWedged = false;
    for (const session of this.#sessions) session.destroy();
    this.#sessions.clear();
  }

  /** Another program's pet, like Thor. */
  async addForeign(): Promise<string> {
    const id = randomUUID();
    const birthday = create(DateSchema, { year: 2021, month: 4, day: 1 });
    this.pets.set(id, create(PetSchema, { id, name: 'Thor', type: PetType.PTCanine, birthday }));
    return id;
  }

  static async start(): Promise<OriginalPetStore> {
    const stores: OriginalPetStore[] = [];
    const pets = (): Map<string, Pet> => stores[0]?.pets ?? new Map();
    const locked = async (signal: AbortSignal): Promise<void> => {
      if (!stores[0]?.isWedged) return;
      await once(signal, 'abort');
      throw new ConnectError('the client has given up', Code.Canceled);
    };
    const server = createServer(
      connectNodeAdapter({
        routes: (router) =>
          router.service(PetStore, {
            addPets: async (request, { signal }) => {
              await locked(signal);
              const ids = request.pets.map((pet) => {
                const id = randomUUID();
                pets().set(id, { ...pet, id });
                return id;
              });
              return { ids };
            },
            updatePets: async (request, { signal }) => {
              await locked(signal);
              for (const pet of request.pets) {
                if (!pets().has(pet.id)) {
                  for (const store of stores) store.#isWedged = true;
                  throw new ConnectError(`pet with ID(${pet.id}) not found`, Code.Internal);
                }
                pets().set(pet.id, pet);
              }
              return {};
            },
            deletePets: async ({ ids }, { signal }) => {
              await locked(signal);
              for (const id of ids) pets().delete(id);
              return {};
            },
            async *searchPets({ names, types, birthdateRange }, { signal }) {
              await locked(signal);
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
