import { create } from '@bufbuild/protobuf';
import { ConnectError, createClient, type Interceptor } from '@connectrpc/connect';
import {
  type ChannelTls,
  DateSchema,
  dayFromText,
  dayText,
  nextDay,
  openChannel,
  type PetStoreChannel,
  PetType,
  requestIdHeader,
  requestIdsKeptHeader,
  type SharedConnection,
  type Pet as WirePet,
  PetStore as WirePetStore,
} from '@echoperator/petstore/wire';
import { cutErrorTexts, type Gate, GateClosedError } from '@echoperator/runtime/client';
import { Batch } from '../../external/batch.ts';
import { LinkedSignal, untilAborted } from '../../external/concurrency.ts';
import { limits } from '../shared/limits.ts';
import { failureOf, RefusedError, SearchRefusedError } from './errors.ts';
import type { StorePet } from './store-pet.ts';

/** Options of a {@link PetStore}. */
export interface PetStoreOptions {
  /** `host:port`. */
  readonly address: string;
  /** Absent: no TLS. */
  readonly tls?: ChannelTls | undefined;
  /** The timeout of a call, in milliseconds. That of {@link PetStore.all} is {@link sweepTimeoutMs}. */
  readonly timeoutMs: number;
  /** The leader's fence, which each call must pass when it is sent. */
  readonly gate?: Gate | undefined;
  readonly interceptors?: readonly Interceptor[];
}

/** A pet with its id. Another program may have added a pet of a type that no Pet can have: its type is undefined. */
export interface FoundPet extends Omit<StorePet, 'type'> {
  readonly id: string;
  readonly type: StorePet['type'] | undefined;
}

/** The result of a search for an id. `searched`: the connection of the search. */
interface Lookup {
  readonly isFound: boolean;
  readonly searched: SharedConnection;
}

type PetStoreClient = ReturnType<typeof createClient<typeof WirePetStore>>;

/** How long a search for all pets may take, in milliseconds. */
const sweepTimeoutMs = 600_000;

const wireTypes: Readonly<Record<StorePet['type'], PetType>> = {
  dog: PetType.PTCanine,
  cat: PetType.PTFeline,
  bird: PetType.PTBird,
  reptile: PetType.PTReptile,
};
const typeOf = (type: PetType): StorePet['type'] | undefined =>
  (Object.keys(wireTypes) as StorePet['type'][]).find((name) => wireTypes[name] === type);

/**
 * A gRPC client of the pet store. All callers share one connection, which is opened on demand. Retries nothing.
 *
 * Every method throws ConnectError for an error of the store and for a missing answer, and any error of the gate. A
 * signal ends the wait for an answer, but the store may still carry out the request.
 */
export class PetStore {
  /** In milliseconds. */
  readonly timeoutMs: number;
  readonly #gate: Gate | undefined;
  readonly #channel: PetStoreChannel;
  readonly #client: PetStoreClient;
  readonly #closing = new AbortController();
  /** Looks up many ids in one search, because the store cannot search by id. */
  readonly #lookups = new Batch<string, Lookup>((ids) => this.#findIds(ids));
  /** The connection on which the last search showed that the store remembers request ids. */
  #rememberingConnection: object | undefined;

  constructor({ address, tls, timeoutMs, gate, interceptors = [] }: PetStoreOptions) {
    this.timeoutMs = timeoutMs;
    this.#gate = gate;
    this.#channel = openChannel({
      address,
      tls,
      timeoutMs,
      interceptors,
      beforeCall: () => gate?.pass('a call of the pet store'),
    });
    this.#client = createClient(WirePetStore, this.#channel.transport);
  }

  /**
   * Whether a search on the current connection has shown that the store remembers request ids. Only this project's
   * store does. It refuses an update of an unknown id with NOT_FOUND.
   */
  get remembersRequests(): boolean {
    return this.#rememberingConnection !== undefined && this.#rememberingConnection === this.#channel.connection();
  }

  /**
   * Adds a pet, once per `requestId` if the store remembers request ids.
   *
   * @param timeoutMs default: {@link timeoutMs}.
   * @returns its id.
   * @throws RefusedError if the store refuses this pet.
   */
  async add(
    pet: StorePet,
    requestId: string,
    signal: AbortSignal,
    timeoutMs: number = this.timeoutMs,
  ): Promise<string> {
    using linked = this.#begin(signal);
    const headers = { [requestIdHeader]: requestId };
    const { ids } = await this.#client
      .addPets({ pets: [wirePet(pet)] }, { headers, signal: linked.signal, timeoutMs })
      .catch(throwRefused);
    const [id] = ids;
    if (id === undefined || ids.length > 1) throw new Error(`the pet store returned ${ids.length} ids for one pet`);
    return recordableId(id);
  }

  /**
   * Replaces the pet with this id. The original store does not release its lock after an update of an unknown id, and
   * then answers no more calls. So unless the store remembers request ids, a search on the same connection must find
   * the id first: another connection may lead to another store.
   *
   * @returns false if the store has no such pet.
   * @throws RefusedError if the store refuses this pet; SearchRefusedError if it cannot be searched for the id.
   */
  async update(id: string, pet: StorePet, signal: AbortSignal): Promise<boolean> {
    let searched: SharedConnection = {};
    if (!this.remembersRequests) {
      const lookup = await untilAborted(this.#lookups.add(id), signal);
      if (!lookup.isFound) return false;
      searched = lookup.searched;
    }
    using linked = this.#begin(signal);
    const request = { pets: [{ id, ...wirePet(pet) }] };
    try {
      await this.#channel
        .onOneConnection(searched, () => this.#client.updatePets(request, { signal: linked.signal }))
        .catch(throwRefused);
      return true;
    } catch (error) {
      if (failureOf(error) === 'unknown') return false;
      throw error;
    }
  }

  /** Deletes a pet. An unknown id is no error. */
  async delete(id: string, signal: AbortSignal): Promise<void> {
    using linked = this.#begin(signal);
    await this.#client.deletePets({ ids: [id] }, { signal: linked.signal }).catch(throwClosed);
  }

  /**
   * Finds the ids of the pets that are alike. Shows whether the store remembers request ids.
   *
   * @throws RefusedError if no message can carry the name.
   */
  async find(pet: StorePet, signal: AbortSignal): Promise<readonly string[]> {
    using linked = this.#begin(signal);
    const { name, type, birthday } = pet;
    const filter = { names: [sendable(name)], types: [wireTypes[type]], ...rangeOf(birthday) };
    const ids: string[] = [];
    for await (const found of this.#search(filter, { signal: linked.signal, onHeader: this.#onHeader })) {
      const { id, ...fields } = foundPet(found);
      // The indexes of the original store keep the old values of an updated pet.
      if (fields.name === name && fields.type === type && fields.birthday === birthday) ids.push(recordableId(id));
    }
    return ids;
  }

  /**
   * Reads all pets, in no particular order. They are complete if the iteration ends without an error.
   *
   * @throws SearchRefusedError if the store refuses the search.
   */
  async *all(signal: AbortSignal): AsyncGenerator<FoundPet> {
    using linked = this.#begin(signal);
    const options = { signal: linked.signal, timeoutMs: sweepTimeoutMs, onHeader: this.#onHeader };
    try {
      for await (const found of this.#search({}, options)) yield foundPet(found);
    } catch (error) {
      const failure = failureOf(error);
      if (failure === undefined || failure === 'down' || !(error instanceof Error)) throw error;
      throw new SearchRefusedError(`the pet store refuses searches: ${error.message}`, { cause: error });
    }
  }

  /** Closes the connection and ends the calls in flight. */
  close(): void {
    this.#closing.abort(new Error('the connection to the pet store is closed'));
    this.#channel.close();
  }

  async *#search(...call: Parameters<PetStoreClient['searchPets']>): AsyncGenerator<WirePet> {
    try {
      yield* this.#client.searchPets(...call);
    } catch (error) {
      throwClosed(error);
    }
  }

  async #findIds(ids: readonly string[]): Promise<readonly Lookup[]> {
    const found = new Set<string>();
    const wanted = new Set(ids);
    const searched: SharedConnection = {};
    await this.#channel.onOneConnection(searched, async () => {
      for await (const { id } of this.all(this.#closing.signal)) if (wanted.has(id)) found.add(id);
    });
    return ids.map((id) => ({ isFound: found.has(id), searched }));
  }

  /** Notes whether the store remembers request ids. */
  readonly #onHeader = (headers: Headers): void => {
    const isRemembering = Number(headers.get(requestIdsKeptHeader) ?? 0) > 0;
    this.#rememberingConnection = isRemembering ? this.#channel.connection() : undefined;
  };

  /** Passes the gate. Returns a signal that is aborted with the given one or when the gate closes. */
  #begin(signal: AbortSignal): LinkedSignal {
    this.#gate?.pass('a call of the pet store');
    return new LinkedSignal(signal, this.#gate?.signal);
  }
}

/** Rethrows a refusal as RefusedError: the store has refused a pet, not a search. */
function throwRefused(error: unknown): never {
  cutErrorTexts(error);
  if (isClosed(error)) throw error.cause;
  if (failureOf(error) === 'refused' && error instanceof Error) throw new RefusedError(error.message, { cause: error });
  throw error;
}

function throwClosed(error: unknown): never {
  cutErrorTexts(error);
  throw isClosed(error) ? error.cause : error;
}

/** Whether the gate refused the call: the client wraps the error of the gate. */
const isClosed = (error: unknown): error is ConnectError & { readonly cause: GateClosedError } =>
  error instanceof ConnectError && error.cause instanceof GateClosedError;

/** @throws Error for an id that the status of a Pet cannot have. */
function recordableId(id: string): string {
  if (id.length <= limits.petId) return id;
  throw new Error(
    `the pet store returned an id of ${id.length} characters: the operator records at most ${limits.petId}`,
  );
}

const wirePet = ({ name, type, birthday }: StorePet) => ({
  name: sendable(name),
  type: wireTypes[type],
  birthday: wireDay(birthday),
});

/**
 * The name, if a message can carry it. Our store refuses a larger message as if the store were full, which would open
 * the circuit for all Pets.
 *
 * @throws RefusedError for a longer name, which only an intent from before names had a bound has.
 */
function sendable(name: string): string {
  const bytes = Buffer.byteLength(name);
  if (bytes <= limits.storedPetName) return name;
  throw new RefusedError(`the name of the pet has ${bytes} bytes: the operator sends at most ${limits.storedPetName}`);
}

function wireDay(text: string) {
  const day = dayFromText(text);
  if (day === undefined) throw new RangeError(`expected a day such as 2020-01-31, got ${JSON.stringify(text)}`);
  return create(DateSchema, day);
}

/**
 * The search filter for one day. Empty for the last day of the calendar, because a range needs the next day as its end.
 */
function rangeOf(birthday: string) {
  const day = dayFromText(birthday);
  const end = day && nextDay(day);
  return end === undefined ? {} : { birthdateRange: { start: wireDay(birthday), end: create(DateSchema, end) } };
}

const foundPet = ({ id, name, type, birthday }: WirePet): FoundPet => ({
  id,
  name,
  type: typeOf(type),
  birthday: birthday === undefined ? '' : dayText(birthday),
});
