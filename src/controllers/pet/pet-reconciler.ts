import { randomUUID } from 'node:crypto';
import { Pet, petFinalizer } from '../../api/index.ts';
import { type DesiredStatus, desiredStatus } from '../../runtime/controller/index.ts';
import {
  type Client,
  defineReasons,
  done,
  type EventRecorder,
  finalizer,
  missingField,
  type ObjectKey,
  type Outcome,
  OutcomeReporter,
  type ReadonlyStore,
  type ReasonOf,
  type ReconcileContext,
  type Result,
  reportStatus,
  requeueAfter,
} from '../../runtime/index.ts';
import { type Circuit, KeyedMutex, OutsideDownError } from '../outside/index.ts';
import { failureOf, RefusedError } from './errors.ts';
import type { Inventory } from './inventory.ts';
import type { PetStore } from './pet-store.ts';
import { InvalidPetError, isAlike, isStored, presentReady, type StorePet, tripleOf, wantedPet } from './store-pet.ts';

/** The reasons of `Ready` of a Pet. */
export const petReasons = defineReasons({
  Stored: { ready: 'True', event: 'Normal', meaning: 'The pet is in the store as the spec says.' },
  Adding: { ready: 'False', event: 'Normal', meaning: 'The store is being asked to add the pet.' },
  Deleting: {
    ready: 'False',
    event: 'Normal',
    meaning: 'The deletion waits for an answer of the store that is missing: it may have added a pet.',
  },
  PetStoreUnavailable: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The store does not answer; the message says since when. The operator retries by itself.',
  },
  PetStoreFailed: {
    ready: 'False',
    event: 'Warning',
    meaning: 'The store answers that it cannot, or does not let the operator; the message quotes it. Retried.',
  },
  PetRefused: {
    ready: 'False',
    event: 'Warning',
    meaning:
      'The store refuses this pet (`INVALID_ARGUMENT`, `OUT_OF_RANGE`); the message quotes it. Retried at each resync.',
  },
  InvalidPet: {
    ready: 'False',
    event: 'Warning',
    tellsNewMessages: true,
    meaning: 'No pet can be made of the spec; the message names the field.',
  },
});

type Status = NonNullable<Pet['status']>;
type PetOutcome = Outcome<ReasonOf<typeof petReasons>, Pet>;

/** The pet that is about to be added, as the status records it. */
type Intent = NonNullable<Status['intent']>;

/** What the reconciler reads and writes. */
export interface PetReconcilerOptions {
  readonly pets: ReadonlyStore<Pet>;
  readonly store: Pick<PetStore, 'timeoutMs' | 'remembersRequests' | 'add' | 'update' | 'delete' | 'find'>;
  /** Passed by each call to the store. */
  readonly circuit: Pick<Circuit, 'call' | 'isCut'>;
  readonly inventory: Inventory;
  readonly events: EventRecorder;
  /** Where there are Pets. Default: everywhere. */
  readonly namespaces: readonly string[] | undefined;
  /** Default: the clock. */
  readonly now?: () => Date;
}

/** An intent whose answer is missing cannot be settled yet: the request may still arrive at the store. */
class TooEarlyError extends Error {
  override readonly name = 'TooEarlyError';
  readonly waitMs: number;

  constructor(waitMs: number) {
    super(`a pet may still be on its way into the store: it is looked for again in ${waitMs} ms`);
    this.waitMs = waitMs;
  }
}

/** A Pet during a reconcile, as it is after the last write. A write is a conflict if somebody else has written since. */
class PetRecord {
  readonly client: Client;
  #pet: Pet;

  constructor(pet: Pet, client: Client) {
    this.#pet = pet;
    this.client = client;
  }

  get pet(): Pet {
    return this.#pet;
  }

  /** Writes into the status what has to survive a crash. */
  async write(status: DesiredStatus<Status>): Promise<void> {
    this.#pet = (await reportStatus(this.client, Pet, this.#pet, status)) ?? this.#pet;
  }
}

/**
 * Keeps one pet in the store for a Pet, as its spec says.
 *
 * `status.id` alone identifies the pet. Before the store is asked to add one, the status records the request (`status.intent`).
 * If the answer is lost, the intent remains, and the next reconcile settles it first:
 *
 * - A store that remembers request ids is asked again, and answers what it answered, or adds the pet now.
 * - In another store a pet is looked for that equals the intent and that no Pet holds, according to the API server. It is ours,
 *   or cannot be told apart. If there is none, another is added, but not before the first request is surely lost.
 *
 * Pets that are alike are added and looked for one at a time, so that no pet is taken by two Pets.
 */
export class PetReconciler {
  readonly #options: PetReconcilerOptions;
  readonly #reporter: OutcomeReporter<Pet, ReasonOf<typeof petReasons>>;
  readonly #now: () => Date;
  readonly #alike = new KeyedMutex();

  constructor(options: PetReconcilerOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => new Date());
    this.#reporter = new OutcomeReporter({ kind: Pet, reasons: petReasons, events: options.events, now: this.#now });
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const pet = this.#options.pets.get(key);
    if (pet === undefined) return done;
    return finalizer({
      client: context.client,
      kind: Pet,
      object: pet,
      name: petFinalizer,
      apply: (guarded) => this.#attempt(guarded, context, (record) => this.#apply(record, context)),
      cleanup: (leaving) => this.#attempt(leaving, context, (record) => this.#cleanUp(record, context.signal)),
    });
  }

  /** Does the work and reports why it failed. */
  async #attempt(pet: Pet, context: ReconcileContext, work: (record: PetRecord) => Promise<Result>): Promise<Result> {
    const record = new PetRecord(pet, context.client);
    try {
      return await work(record);
    } catch (error) {
      context.signal.throwIfAborted();
      const failure = this.#failureOutcome(record.pet, error);
      if (failure === undefined) throw error;
      if ('type' in failure) return failure;
      return this.#reporter.report(record.pet, failure, context);
    }
  }

  /** The outcome of a failed reconcile, or its result if the status already tells. Undefined for an unexpected error. */
  #failureOutcome(pet: Pet, error: unknown): PetOutcome | Result | undefined {
    if (error instanceof TooEarlyError) {
      if (pet.metadata.deletionTimestamp === undefined) return requeueAfter(error.waitMs);
      return {
        reason: 'Deleting',
        message: 'the deletion waits until a pet that may still be on its way into the store is looked for again',
        requeueAfterMs: error.waitMs,
      };
    }
    if (error instanceof OutsideDownError) {
      const reason = error.reason === 'PetStoreFailed' ? error.reason : 'PetStoreUnavailable';
      // Once per generation: each probe may fail with other words, and thousands of Pets may wait.
      if (presentReady(pet)?.reason === reason) return requeueAfter(error.retryAfterMs);
      const message = waitingFor(pet, `${error.message} (since ${error.since.toISOString()})`);
      return { reason, message, requeueAfterMs: error.retryAfterMs };
    }
    if (error instanceof InvalidPetError) return { reason: 'InvalidPet', message: error.message };
    if (error instanceof RefusedError) {
      // The intent stays where the store remembers requests: the next attempt is the same request and needs no write. Elsewhere
      // an intent is settled by looking for a pet that is alike, and none was added.
      const status = this.#options.store.remembersRequests ? {} : { intent: null };
      return { reason: 'PetRefused', message: error.message, status };
    }
    if (failureOf(error) === undefined || !(error instanceof Error)) return undefined;
    return { reason: 'PetStoreFailed', message: waitingFor(pet, error.message), error };
  }

  async #apply(record: PetRecord, context: ReconcileContext): Promise<Result> {
    const { signal } = context;
    const missing = missingField(Pet, record.pet);
    if (missing !== undefined) throw new InvalidPetError(`${missing} is missing`);
    const wanted = wantedPet(record.pet.spec);
    const { intent } = record.pet.status ?? {};
    if (intent !== undefined) {
      await this.#settle(record, intent, signal, (id) => record.write({ id, intent: null })).catch((error: unknown) => {
        // The store refuses a pet that is not wanted any more.
        if (!(error instanceof RefusedError) || isAlike(intent, wanted)) throw error;
      });
    }
    const { id } = record.pet.status ?? {};
    if (id === undefined) return this.#add(record, wanted, context);
    const { circuit, store, inventory } = this.#options;
    const deviation = inventory.deviation(id);
    if (deviation === undefined && isStored(record.pet)) return done;
    if (await circuit.call((linked) => store.update(id, wanted, linked), signal)) {
      this.#reporter.tell(record.pet, updateNotice(id, deviation), context);
      inventory.settled(id);
      return this.#reporter.report(record.pet, stored(id), context);
    }
    const note = `pet ${id} is not in the store any more: it is added again`;
    this.#reporter.tell(record.pet, { type: 'Warning', reason: 'PetLost', note }, context);
    const result = await this.#add(record, wanted, context);
    inventory.settled(id);
    return result;
  }

  /** Adds a pet by a request that was never sent before. */
  async #add(record: PetRecord, wanted: StorePet, context: ReconcileContext): Promise<Result> {
    const { circuit, store } = this.#options;
    const { signal } = context;
    return this.#alike.run(tripleOf(wanted), signal, async () => {
      // One call: a probe has to find out whether the store can add, not only whether it can be searched.
      const id = await circuit.call(async (linked) => {
        // A store that is down fails here, before an intent is written that would have to be settled.
        if (circuit.isCut) await store.find(wanted, linked);
        const intent: Intent = { ...wanted, requestId: randomUUID(), since: this.#now().toISOString() };
        await record.write({ id: null, intent, ...this.#adding(record.pet) });
        return store.add(wanted, intent.requestId, linked);
      }, signal);
      // Reported while no other Pet looks for a pet that is alike.
      return this.#reporter.report(record.pet, { ...stored(id), status: { id, intent: null } }, context);
    });
  }

  /** A pet that the store has refused stays `PetRefused` until the store answers otherwise. */
  #adding(pet: Pet): Pick<DesiredStatus<Status>, 'conditions'> {
    if (presentReady(pet)?.reason === 'PetRefused') return {};
    const adding: PetOutcome = { reason: 'Adding', message: 'the pet is being added to the store' };
    const { conditions } = desiredStatus<Pet, PetOutcome['reason']>(petReasons, pet, adding, this.#now());
    return conditions === undefined ? {} : { conditions };
  }

  /**
   * Finds out what became of an intent whose answer is missing, and passes the id of its pet to `take` if there is one. Until
   * `take` has resolved, nobody else looks for a pet that is alike.
   */
  async #settle(
    record: PetRecord,
    intent: Intent,
    signal: AbortSignal,
    take: (id: string) => Promise<void>,
  ): Promise<void> {
    const { circuit, store, namespaces } = this.#options;
    await this.#alike.run(tripleOf(intent), signal, async () => {
      const ageMs = this.#now().getTime() - Date.parse(intent.since);
      const { added, alike = [] } = await circuit.call(async (linked) => {
        const { ids, requestIdsKeptMs } = await store.find(intent, linked);
        // Half of the time, because the clock of the store may differ.
        if (ageMs >= requestIdsKeptMs / 2) return { alike: ids };
        return { added: await store.add(intent, intent.requestId, linked) };
      }, signal);
      if (added !== undefined) return take(added);
      const held =
        alike.length === 0 ? undefined : await idsHeldByOthers(record.client, record.pet.metadata.uid, namespaces);
      const own = alike.filter((id) => !held?.has(id)).sort()[0];
      if (own !== undefined) return take(own);
      const waitMs = 2 * store.timeoutMs - ageMs;
      if (waitMs > 0) throw new TooEarlyError(waitMs);
    });
  }

  async #cleanUp(record: PetRecord, signal: AbortSignal): Promise<Result> {
    const { circuit, store, inventory } = this.#options;
    const remove = (id: string): Promise<void> => circuit.call((linked) => store.delete(id, linked), signal);
    const { id, intent } = record.pet.status ?? {};
    try {
      // Not written into the status: the finalizer is taken off the object as it was read.
      if (intent !== undefined) await this.#settle(record, intent, signal, remove);
    } catch (error) {
      // The store refuses the pet, so it has not added it.
      if (!(error instanceof RefusedError)) throw error;
    }
    if (id === undefined) return done;
    await remove(id);
    inventory.settled(id);
    return done;
  }
}

const stored = (id: string): PetOutcome => ({ reason: 'Stored', message: `pet ${id} is in the store` });

const updateNotice = (id: string, deviation: ReturnType<Inventory['deviation']>) =>
  deviation === 'changed'
    ? ({ type: 'Warning', reason: 'PetRestored', note: `pet ${id} was changed in the store: set back` } as const)
    : ({ type: 'Normal', reason: 'PetUpdated', note: `pet ${id} is updated in the store` } as const);

/** For a Pet that is being deleted, the message says what the deletion waits for. */
function waitingFor({ metadata, status }: Pet, message: string): string {
  if (metadata.deletionTimestamp === undefined) return message;
  return `the deletion waits until pet ${status?.id ?? 'that may have been added'} is deleted in the store: ${message}`;
}

const pageSize = 500;

/**
 * The ids that other Pets hold, read from the API server: the cache may not have observed the last status that another process
 * wrote, and a pet that two Pets have taken would be deleted with the first of them.
 *
 * @param namespaces where there are Pets. Default: everywhere.
 */
async function idsHeldByOthers(
  client: Client,
  uid: string,
  namespaces: readonly string[] | undefined,
): Promise<ReadonlySet<string>> {
  const held = new Set<string>();
  for (const scope of namespaces?.map((namespace) => ({ namespace })) ?? [{}]) {
    for (let next: string | undefined = ''; next !== undefined; ) {
      const page: Awaited<ReturnType<typeof client.list<Pet>>> = await client.list(Pet, {
        ...scope,
        limit: pageSize,
        ...(next !== '' && { continue: next }),
      });
      for (const { metadata, status } of page.items) {
        if (status?.id !== undefined && metadata.uid !== uid) held.add(status.id);
      }
      next = page.metadata.continue || undefined;
    }
  }
  return held;
}
