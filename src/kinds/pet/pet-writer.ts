import { randomUUID } from 'node:crypto';
import { cleanedUp } from '@echoperator/runtime';
import { listPages } from '@echoperator/runtime/client';
import {
  type CleanedUp,
  type Context,
  currentReady,
  type DesiredStatus,
  desiredStatus,
} from '@echoperator/runtime/controller';
import { type Circuit, ExternalSystemDownError } from '../../external/circuit.ts';
import { KeyedMutex } from '../../external/concurrency.ts';
import { limits } from '../shared/limits.ts';
import { failureOf, isRequestIdTaken, RefusedError } from './errors.ts';
import type { Inventory } from './inventory.ts';
import { Pet } from './kind.ts';
import type { PetStore } from './pet-store.ts';
import { type PetOutcome, petReasons } from './reasons.ts';
import {
  type Intent,
  InvalidPetError,
  isAlike,
  isStored,
  recordedId,
  recordedIntent,
  type StorePet,
  tripleOf,
  wantedPet,
} from './store-pet.ts';

type Status = NonNullable<Pet['status']>;

/** What it uses of the context of a reconcile. */
type PetContext = Pick<
  Context<Pet, PetOutcome['reason'], unknown, unknown, Record<never, never>>,
  'object' | 'client' | 'signal' | 'writeStatus' | 'report' | 'event'
>;

/** Options of {@link PetWriter}. */
export interface PetWriterOptions {
  readonly store: Pick<PetStore, 'timeoutMs' | 'remembersRequests' | 'add' | 'update' | 'delete' | 'find'>;
  /** The circuit that each call to the store goes through. */
  readonly circuit: Pick<Circuit, 'call' | 'isOpen'>;
  readonly inventory: Inventory;
  /** The namespaces of the Pets. Default: all. */
  readonly namespaces: readonly string[] | undefined;
  /** Default: the clock of the process. */
  readonly now?: () => Date;
}

/** An intent without an answer cannot be settled yet, because the store may still receive the request. */
class TooEarlyError extends Error {
  override readonly name = 'TooEarlyError';
  readonly waitMs: number;

  constructor(waitMs: number) {
    super(`the store may still add a pet: the operator searches for it again in ${waitMs} ms`);
    this.waitMs = waitMs;
  }
}

/**
 * Keeps one pet in the store for each Pet, with the values of its spec.
 *
 * Only `status.id` identifies the pet. Before the operator sends a request to add one, it records the request in
 * `status.intent`. If the answer is lost, the intent remains, and the next reconcile settles it first:
 *
 * - If the store remembers request ids, the operator sends the same request again. The store repeats its answer or adds
 *   the pet.
 * - Otherwise the operator searches for a pet that equals the intent, was not there before the request, and whose id no
 *   other Pet has, according to the API server; see {@link ownPet}. That is the pet of this Pet, or indistinguishable
 *   from it. If there is none, the operator adds one, but only when the first request can no longer arrive.
 *
 * Only one Pet at a time adds or searches for pets that are alike, so two Pets never share a pet.
 */
export class PetWriter {
  readonly #options: PetWriterOptions;
  readonly #now: () => Date;
  readonly #alike = new KeyedMutex();

  constructor(options: PetWriterOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => new Date());
  }

  /** Adds or updates the pet. Undefined: it has reported what it did, or there is nothing to report. */
  async apply(context: PetContext): Promise<PetOutcome | { readonly requeueAfterMs: number } | undefined> {
    try {
      return await this.#apply(context);
    } catch (error) {
      if (!(error instanceof TooEarlyError)) throw error;
      return { requeueAfterMs: error.waitMs };
    }
  }

  /** Deletes the pet. */
  async cleanUp(context: PetContext): Promise<CleanedUp | PetOutcome> {
    const { circuit, store, inventory } = this.#options;
    const { signal } = context;
    const remove = (id: string): Promise<void> => circuit.call((linked) => store.delete(id, linked), signal);
    await dropUnsentIntent(context);
    const id = recordedId(context.object);
    const intent = recordedIntent(context.object);
    try {
      // Do not write the id to the status: the finalizer is removed from the object as it was read.
      if (intent !== undefined) await this.#settle(intent, context, remove);
    } catch (error) {
      if (error instanceof TooEarlyError) {
        const message = 'the deletion waits: the store may still add a pet, and the operator searches for it again';
        return { reason: 'Deleting', message, requeueAfterMs: error.waitMs };
      }
      // The store refuses the pet, so it has not added it. Or others have changed the intent: no request of this
      // content was sent.
      if (!(error instanceof RefusedError) && !isRequestIdTaken(error)) throw error;
    }
    if (id === undefined) return cleanedUp;
    await remove(id);
    inventory.markCorrected(id);
    return cleanedUp;
  }

  /** The outcome of an error. Undefined for an unexpected one. */
  failureOutcome(pet: Pet, error: unknown): PetOutcome | undefined {
    if (error instanceof ExternalSystemDownError) {
      const reason = error.reason === 'PetStoreFailed' ? error.reason : 'PetStoreUnavailable';
      const message = withDeletion(pet, `${error.message} (since ${error.since.toISOString()})`);
      return { reason, message, requeueAfterMs: error.retryAfterMs };
    }
    if (error instanceof InvalidPetError) return { reason: 'InvalidPet', message: error.message };
    if (error instanceof RefusedError) {
      // If the store remembers request ids, keep the intent: the next attempt repeats the request and needs no status
      // write. Otherwise remove it: settling it would search for a pet, and none was added.
      const status = this.#options.store.remembersRequests ? {} : { intent: null };
      return { reason: 'PetRefused', message: error.message, status };
    }
    if (failureOf(error) === undefined || !(error instanceof Error)) return undefined;
    return { reason: 'PetStoreFailed', message: withDeletion(pet, error.message), error };
  }

  async #apply(context: PetContext): Promise<PetOutcome | undefined> {
    const { signal, writeStatus } = context;
    await dropUnsentIntent(context);
    const wanted = wantedPet(context.object.spec);
    const intent = recordedIntent(context.object);
    if (intent !== undefined) {
      await this.#settle(intent, context, (id) => writeStatus({ id, intent: null })).catch((error: unknown) => {
        // Ignore the refusal of a pet that the spec no longer asks for.
        if (!(error instanceof RefusedError) || isAlike(intent, wanted)) throw error;
      });
    }
    const id = recordedId(context.object);
    if (id === undefined) {
      await this.#add(wanted, context);
      return undefined;
    }
    const { circuit, store, inventory } = this.#options;
    const deviation = inventory.deviation(id);
    if (deviation === undefined && isStored(context.object)) return undefined;
    const isPresent = await circuit.call((linked) => store.update(id, wanted, linked), signal);
    if (!isPresent) await this.#add(wanted, context);
    inventory.markCorrected(id);
    return isPresent ? { ...stored(id), event: updateEvent(id, deviation) } : undefined;
  }

  /** Adds a pet with a new request id, and reports it. If the status has an id, that pet is no longer in the store. */
  async #add(wanted: StorePet, context: PetContext): Promise<void> {
    const { circuit, store } = this.#options;
    const { signal } = context;
    await this.#alike.run(tripleOf(wanted), signal, async () => {
      // One call for both: a probe must find out whether the store can add a pet, not only whether it answers searches.
      const id = await circuit.call(async (linked) => {
        // If the store is down, fail before an intent is written that would have to be settled.
        if (circuit.isOpen) await store.find(wanted, linked);
        const present = store.remembersRequests ? undefined : await this.#present(wanted, linked);
        const request = { ...wanted, requestId: randomUUID(), since: this.#now().toISOString() };
        const intent: Intent = { ...request, ...(present && { present }) };
        const lost = recordedId(context.object);
        await context.writeStatus({ id: null, intent, ...this.#adding(context.object) });
        if (lost !== undefined) {
          const note = `pet ${lost} is no longer in the store: adding it again`;
          context.event({ type: 'Warning', reason: 'PetLost', note });
        }
        if (store.remembersRequests) return store.add(wanted, intent.requestId, linked);
        // Another attempt may follow twice the timeout after `since`. If the write was slow, this one must still end
        // after one.
        const leftMs = store.timeoutMs - (this.#now().getTime() - Date.parse(request.since));
        if (leftMs <= 0) throw new TooEarlyError(Math.max(store.timeoutMs + leftMs, 0));
        return store.add(wanted, intent.requestId, linked, leftMs);
      }, signal);
      // Report before another Pet may search for a pet that is alike.
      await context.report({ ...stored(id), status: { id, intent: null } });
    });
  }

  /**
   * The pets that are alike before one is added. In a store that forgets requests, only this tells the pets of others
   * from one that a lost request has added. Undefined if the store refuses searches: it still gets its pets.
   *
   * @throws RefusedError if there are more than the status can name.
   */
  async #present(wanted: StorePet, signal: AbortSignal): Promise<readonly string[] | undefined> {
    try {
      const ids = await this.#options.store.find(wanted, signal);
      if (ids.length > limits.presentPets)
        throw new RefusedError(
          `the store has ${ids.length} pets of this name, type and birthday: the operator tells a new one from at most ${limits.presentPets}`,
        );
      return ids;
    } catch (error) {
      const failure = failureOf(error);
      if (failure === undefined || failure === 'down' || error instanceof RefusedError) throw error;
      return undefined;
    }
  }

  /** The condition `Adding`. A Pet with the reason `PetRefused` keeps it until the store accepts the pet. */
  #adding(pet: Pet): Pick<DesiredStatus<Status>, 'conditions'> {
    if (currentReady(pet)?.reason === 'PetRefused') return {};
    const adding: PetOutcome = { reason: 'Adding', message: 'the pet is being added to the store' };
    const { conditions } = desiredStatus<Pet, PetOutcome['reason']>(petReasons, pet, adding, this.#now());
    return conditions === undefined ? {} : { conditions };
  }

  /**
   * Settles an intent without an answer: finds its pet, if there is one, and passes the id to `onFound`. Until
   * `onFound` has resolved, no other Pet searches for a pet that is alike.
   */
  async #settle(intent: Intent, context: PetContext, onFound: (id: string) => Promise<unknown>): Promise<unknown> {
    const { circuit, store, namespaces } = this.#options;
    const { signal, writeStatus } = context;
    return this.#alike.run(tripleOf(intent), signal, async () => {
      const now = this.#now();
      // The clock of the process that wrote the intent may be ahead of this one.
      const isFuture = Date.parse(intent.since) > now.getTime();
      const ageMs = isFuture ? 0 : now.getTime() - Date.parse(intent.since);
      const { added, alike = [] } = await circuit.call(async (linked) => {
        const alike = await store.find(intent, linked);
        // Such a store knows the request for as long as its pet exists.
        return store.remembersRequests ? { added: await store.add(intent, intent.requestId, linked) } : { alike };
      }, signal);
      if (added !== undefined) return onFound(added);
      const present = new Set(intent.present);
      const free = alike.filter((id) => !present.has(id));
      const own = free.length === 0 ? undefined : await ownPet(free, context, namespaces);
      if (own !== undefined) return onFound(own);
      const waitMs = 2 * store.timeoutMs - ageMs;
      if (waitMs <= 0) return undefined;
      // The request was sent before now, so the wait need not begin later.
      if (isFuture) await writeStatus({ intent: { ...intent, since: now.toISOString() } });
      throw new TooEarlyError(waitMs);
    });
  }
}

/**
 * Removes an intent that the operator cannot have recorded. First of all: a server that validates the whole object
 * refuses other writes while the status has an invalid member.
 */
async function dropUnsentIntent({ object, writeStatus }: PetContext): Promise<void> {
  if (object.status?.intent !== undefined && recordedIntent(object) === undefined) await writeStatus({ intent: null });
}

const stored = (id: string): PetOutcome => ({ reason: 'Stored', message: `pet ${id} is in the store` });

const updateEvent = (id: string, deviation: ReturnType<Inventory['deviation']>) =>
  deviation === 'changed'
    ? ({
        type: 'Warning',
        reason: 'PetRestored',
        note: `restored pet ${id}, which others had changed in the store`,
      } as const)
    : ({ type: 'Normal', reason: 'PetUpdated', note: `updated pet ${id} in the store` } as const);

/** If the Pet is being deleted, begins the message with what the deletion waits for. */
function withDeletion({ metadata, status }: Pet, message: string): string {
  if (metadata.deletionTimestamp === undefined) return message;
  return `the deletion waits until ${status?.id === undefined ? 'a pet that may have been added' : `pet ${status.id}`} is deleted from the store: ${message}`;
}

/**
 * Chooses the pet of a Pet whose response was lost, among the pets that did not exist before its request. Never chooses
 * a pet whose id another Pet has: the deletion of that Pet would delete this pet. Other Pets whose responses were lost
 * choose later. A pet that was there before their requests is not for them, and would belong to nobody. Therefore this
 * Pet takes the pet that most others must not take.
 *
 * Reads the other Pets from the API server, because the cache may not have observed the last status that another
 * process wrote.
 */
async function ownPet(
  free: readonly string[],
  { client, object: { metadata } }: Pick<PetContext, 'client' | 'object'>,
  namespaces: readonly string[] | undefined,
): Promise<string | undefined> {
  const refusals = new Map(free.toSorted().map((id) => [id, 0]));
  const taken = new Set<string | undefined>();
  for (const scope of namespaces?.map((namespace) => ({ namespace })) ?? [{}]) {
    for await (const { items } of listPages(client, Pet, scope)) {
      for (const other of items) {
        if (other.metadata.uid === metadata.uid) continue;
        taken.add(recordedId(other));
        for (const id of recordedIntent(other)?.present ?? []) {
          const count = refusals.get(id);
          if (count !== undefined) refusals.set(id, count + 1);
        }
      }
    }
  }
  const candidates = [...refusals].filter(([id]) => !taken.has(id));
  return candidates.sort(([, one], [, other]) => other - one)[0]?.[0];
}
