import { create } from '@bufbuild/protobuf';
import { ConnectError, createClient } from '@connectrpc/connect';
import {
  DateSchema,
  dayFromText,
  dayText,
  nextDay,
  openChannel,
  type PetStoreChannel,
  PetType,
  requestIdHeader,
  requestIdsKeptHeader,
  type Pet as WirePet,
  PetStore as WirePetStore,
} from '../../petstore-wire/index.ts';
import { type Gate, GateClosedError } from '../../runtime/client/index.ts';
import { Batch, LinkedSignal, untilAborted } from '../outside/index.ts';
import { failureOf, RefusedError, SearchRefusedError } from './errors.ts';
import type { StorePet } from './store-pet.ts';

/** What a {@link PetStore} needs. */
export interface PetStoreOptions {
  /** `host:port`. */
  readonly address: string;
  /** Absent: plain text. `ca`, in PEM, replaces the public authorities. */
  readonly tls?: { readonly ca?: string } | undefined;
  /** How long an answer may take, in milliseconds; a sweep may take {@link sweepTimeoutMs}. */
  readonly timeoutMs: number;
  /** Passed by each call as it is sent, when there is a connection: the leader's fence. */
  readonly gate?: Gate | undefined;
}

/** A pet with its id. A pet of another program may have a type that no Pet can ask for. */
export interface FoundPet extends Omit<StorePet, 'type'> {
  readonly id: string;
  readonly type: StorePet['type'] | undefined;
}

/** What a search for one pet has found. */
export interface Findings {
  /** The ids of all pets that are alike. */
  readonly ids: readonly string[];
  /** How long the store remembers request ids, in milliseconds; 0 if it does not. */
  readonly requestIdsKeptMs: number;
}

type PetStoreClient = ReturnType<typeof createClient<typeof WirePetStore>>;

/** How long a search for all pets may take, in milliseconds. */
export const sweepTimeoutMs = 600_000;

const wireTypes: Readonly<Record<StorePet['type'], PetType>> = {
  dog: PetType.PTCanine,
  cat: PetType.PTFeline,
  bird: PetType.PTBird,
  reptile: PetType.PTReptile,
};
const typeOf = (type: PetType): StorePet['type'] | undefined =>
  (Object.keys(wireTypes) as StorePet['type'][]).find((name) => wireTypes[name] === type);

/**
 * A client of the pet store, by gRPC: one connection for all callers, opened on demand. It retries nothing.
 *
 * Every method throws ConnectError for an error of the store and for a missing answer, and what the gate throws. A signal ends
 * the wait for an answer: the store may carry out the request all the same.
 */
export class PetStore {
  /** In milliseconds. */
  readonly timeoutMs: number;
  readonly #gate: Gate | undefined;
  readonly #channel: PetStoreChannel;
  readonly #client: PetStoreClient;
  readonly #closing = new AbortController();
  /** Looks many ids up in one search: there is no search by id. */
  readonly #lookups = new Batch<string, boolean>({ execute: (ids) => this.#areThere(ids) });
  /** The connection on which a search last said that the store remembers request ids. */
  #remembering: object | undefined;

  constructor({ address, tls, timeoutMs, gate }: PetStoreOptions) {
    this.timeoutMs = timeoutMs;
    this.#gate = gate;
    this.#channel = openChannel({ address, tls, timeoutMs, beforeCall: () => gate?.pass() });
    this.#client = createClient(WirePetStore, this.#channel.transport);
  }

  /**
   * Whether the store remembers request ids, as far as a search on the present connection has told. Only our store does; it
   * refuses an update of an unknown id with NOT_FOUND.
   */
  get remembersRequests(): boolean {
    return this.#remembering !== undefined && this.#remembering === this.#channel.connection();
  }

  /**
   * Adds a pet, once per `requestId` if the store remembers request ids.
   *
   * @returns its id.
   * @throws RefusedError if the store refuses this pet.
   */
  async add(pet: StorePet, requestId: string, signal: AbortSignal): Promise<string> {
    using linked = this.#begin(signal);
    const headers = { [requestIdHeader]: requestId };
    const { ids } = await this.#client
      .addPets({ pets: [wirePet(pet)] }, { headers, signal: linked.signal })
      .catch(throwRefused);
    const [id] = ids;
    if (id === undefined || ids.length > 1) throw new Error(`the pet store has given ${ids.length} ids for one pet`);
    return id;
  }

  /**
   * Replaces the pet with this id. The original store keeps its lock when it is asked to update an id that it does not have, and
   * answers no call after that: so unless the store is known to be ours, a search has to find the id first.
   *
   * @returns false if the store has no such pet.
   * @throws RefusedError if the store refuses this pet; SearchRefusedError if it cannot be searched for the id.
   */
  async update(id: string, pet: StorePet, signal: AbortSignal): Promise<boolean> {
    if (!this.remembersRequests && !(await untilAborted(this.#lookups.add(id), signal))) return false;
    using linked = this.#begin(signal);
    try {
      await this.#client.updatePets({ pets: [{ id, ...wirePet(pet) }] }, { signal: linked.signal }).catch(throwRefused);
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

  /** Finds the pets that are alike. */
  async find(pet: StorePet, signal: AbortSignal): Promise<Findings> {
    using linked = this.#begin(signal);
    let requestIdsKeptMs = 0;
    const onHeader = (headers: Headers): void => {
      requestIdsKeptMs = this.#requestIdsKeptMs(headers);
    };
    const { name, type, birthday } = pet;
    const filter = { names: [name], types: [wireTypes[type]], ...rangeOf(birthday) };
    const ids: string[] = [];
    for await (const found of this.#search(filter, { signal: linked.signal, onHeader })) {
      const { id, ...fields } = foundPet(found);
      // The indexes of the original store keep the old values of an updated pet.
      if (fields.name === name && fields.type === type && fields.birthday === birthday) ids.push(id);
    }
    return { ids, requestIdsKeptMs };
  }

  /**
   * All pets, one by one, in no order. The search is complete if the iteration ends without an error.
   *
   * @throws SearchRefusedError if the store answers, but cannot be searched.
   */
  async *all(signal: AbortSignal): AsyncGenerator<FoundPet> {
    using linked = this.#begin(signal);
    const onHeader = (headers: Headers): void => void this.#requestIdsKeptMs(headers);
    const options = { signal: linked.signal, timeoutMs: sweepTimeoutMs, onHeader };
    try {
      for await (const found of this.#search({}, options)) yield foundPet(found);
    } catch (error) {
      const failure = failureOf(error);
      if (failure === undefined || failure === 'down' || !(error instanceof Error)) throw error;
      throw new SearchRefusedError(`the pet store cannot be searched: ${error.message}`, { cause: error });
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

  async #areThere(ids: readonly string[]): Promise<readonly boolean[]> {
    const found = new Set<string>();
    const wanted = new Set(ids);
    for await (const { id } of this.all(this.#closing.signal)) if (wanted.has(id)) found.add(id);
    return ids.map((id) => found.has(id));
  }

  /** Notes whether the store remembers request ids. */
  #requestIdsKeptMs(headers: Headers): number {
    const keptMs = Number(headers.get(requestIdsKeptHeader) ?? 0) * 1000;
    const remembers = Number.isFinite(keptMs) && keptMs > 0;
    this.#remembering = remembers ? this.#channel.connection() : undefined;
    return remembers ? keptMs : 0;
  }

  /** Passes the gate. The call also ends when the gate closes. */
  #begin(signal: AbortSignal): LinkedSignal {
    this.#gate?.pass();
    return new LinkedSignal(signal, this.#gate?.signal);
  }
}

/** Tells a refusal of a pet from one of a search. */
function throwRefused(error: unknown): never {
  if (isClosed(error)) throw error.cause;
  if (failureOf(error) === 'refused' && error instanceof Error) throw new RefusedError(error.message, { cause: error });
  throw error;
}

function throwClosed(error: unknown): never {
  throw isClosed(error) ? error.cause : error;
}

/** What the gate throws as a call is sent comes as the cause of an error of the client. */
const isClosed = (error: unknown): error is ConnectError & { readonly cause: GateClosedError } =>
  error instanceof ConnectError && error.cause instanceof GateClosedError;

const wirePet = ({ name, type, birthday }: StorePet) => ({ name, type: wireTypes[type], birthday: wireDay(birthday) });

function wireDay(text: string) {
  const day = dayFromText(text);
  if (day === undefined) throw new RangeError(`${JSON.stringify(text)} is no day`);
  return create(DateSchema, day);
}

/** The range of that one day. The last day of the calendar has none, because no day follows it. */
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
