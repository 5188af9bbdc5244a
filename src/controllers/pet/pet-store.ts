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
import { type Gate, GateClosedError } from '../../runtime/index.ts';
import { Ending } from './ending.ts';
import type { StorePet } from './store-pet.ts';

/** What a {@link PetStore} is told. */
export interface PetStoreOptions {
  /** `host:port`. */
  readonly address: string;
  /** Absent: plain text. `ca`, in PEM, takes the place of the public ones. */
  readonly tls?: { readonly ca?: string } | undefined;
  /** How long an answer may take, in milliseconds; a sweep may take {@link sweepTimeoutMs}. */
  readonly timeoutMs: number;
  /** What each call has to pass where it leaves, when there is a connection: the leader's fence. */
  readonly gate?: Gate | undefined;
}

/** A pet with its id. One that another program has put there may be of a type that no Pet can ask for. */
export interface FoundPet extends Omit<StorePet, 'type'> {
  readonly id: string;
  readonly type: StorePet['type'] | undefined;
}

/** What was found of one pet. */
export interface Findings {
  /** The ids of all that are alike. */
  readonly ids: readonly string[];
  /** For so long the store remembers the names of requests, in milliseconds; 0: it knows nothing of them. */
  readonly requestIdsKeptMs: number;
}

type PetStoreClient = ReturnType<typeof createClient<typeof WirePetStore>>;

/** How long all pets may take to be read, in milliseconds. */
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
 * The pet store, by gRPC: one connection for all that use it, made when it is first needed. It tries nothing again.
 *
 * Every method throws ConnectError for what the store says and where there is no answer, and what the gate throws. Signals end
 * the wait for an answer: what was sent may be done all the same.
 */
export class PetStore {
  /** In milliseconds. */
  readonly timeoutMs: number;
  readonly #gate: Gate | undefined;
  readonly #channel: PetStoreChannel;
  readonly #client: PetStoreClient;

  constructor({ address, tls, timeoutMs, gate }: PetStoreOptions) {
    this.timeoutMs = timeoutMs;
    this.#gate = gate;
    this.#channel = openChannel({ address, tls, timeoutMs, beforeCall: () => gate?.pass() });
    this.#client = createClient(WirePetStore, this.#channel.transport);
  }

  /**
   * Adds a pet, once for each `requestId` if the store knows of such.
   *
   * @returns its id.
   */
  async add(pet: StorePet, requestId: string, signal: AbortSignal): Promise<string> {
    using ending = this.#begin(signal);
    const headers = { [requestIdHeader]: requestId };
    const options = { headers, signal: ending.signal };
    const { ids } = await this.#client.addPets({ pets: [wirePet(pet)] }, options).catch(whereClosed);
    const [id] = ids;
    if (id === undefined || ids.length > 1) throw new Error(`the pet store has given ${ids.length} ids for one pet`);
    return id;
  }

  /** Makes the pet with this id be this one. */
  async update(id: string, pet: StorePet, signal: AbortSignal): Promise<void> {
    using ending = this.#begin(signal);
    const pets = [{ id, ...wirePet(pet) }];
    await this.#client.updatePets({ pets }, { signal: ending.signal }).catch(whereClosed);
  }

  /** No error where there is no such pet. */
  async delete(id: string, signal: AbortSignal): Promise<void> {
    using ending = this.#begin(signal);
    await this.#client.deletePets({ ids: [id] }, { signal: ending.signal }).catch(whereClosed);
  }

  /** Looks for pets that are alike. */
  async find(pet: StorePet, signal: AbortSignal): Promise<Findings> {
    using ending = this.#begin(signal);
    let keptSeconds = 0;
    const onHeader = (headers: Headers): void => {
      keptSeconds = Number(headers.get(requestIdsKeptHeader) ?? 0);
    };
    const { name, type, birthday } = pet;
    const filter = { names: [name], types: [wireTypes[type]], ...rangeOf(birthday) };
    const ids: string[] = [];
    for await (const found of this.#search(filter, { signal: ending.signal, onHeader })) {
      const { id, ...fields } = foundPet(found);
      // A store whose indexes are out of date finds others too.
      if (fields.name === name && fields.type === type && fields.birthday === birthday) ids.push(id);
    }
    return { ids, requestIdsKeptMs: Number.isFinite(keptSeconds) ? keptSeconds * 1000 : 0 };
  }

  /** All pets, one by one, in no order. It is whole if it ends without an error. */
  async *all(signal: AbortSignal): AsyncGenerator<FoundPet> {
    using ending = this.#begin(signal);
    const options = { signal: ending.signal, timeoutMs: sweepTimeoutMs };
    for await (const found of this.#search({}, options)) yield foundPet(found);
  }

  async *#search(...call: Parameters<PetStoreClient['searchPets']>): AsyncGenerator<WirePet> {
    try {
      yield* this.#client.searchPets(...call);
    } catch (error) {
      whereClosed(error);
    }
  }

  /** Ends the connection and what is under way on it. */
  close(): void {
    this.#channel.close();
  }

  /** Passes the gate; what is under way ends also when nothing may be any more. */
  #begin(signal: AbortSignal): Ending {
    this.#gate?.pass();
    return new Ending(signal, this.#gate?.signal);
  }
}

/** What the gate throws where a call leaves comes as the cause of an error of the client. */
function whereClosed(error: unknown): never {
  throw error instanceof ConnectError && error.cause instanceof GateClosedError ? error.cause : error;
}

const wirePet = ({ name, type, birthday }: StorePet) => ({ name, type: wireTypes[type], birthday: wireDay(birthday) });

function wireDay(text: string) {
  const day = dayFromText(text);
  if (day === undefined) throw new RangeError(`${JSON.stringify(text)} is no day`);
  return create(DateSchema, day);
}

/** The range of that one day. There is none of the last day of all: no day comes after it. */
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
