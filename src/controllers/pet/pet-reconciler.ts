import { randomUUID } from 'node:crypto';
import { Pet, petFinalizer } from '../../api/index.ts';
import {
  done,
  type EventRecorder,
  finalizer,
  type ObjectKey,
  type ReadonlyStore,
  type ReconcileContext,
  type Result,
  requeueAfter,
  setCondition,
} from '../../runtime/index.ts';
import { type Circuit, OutsideDownError } from '../outside/index.ts';
import { idsHeldByOthers } from './held-ids.ts';
import type { Inventory } from './inventory.ts';
import { OneAtATime } from './one-at-a-time.ts';
import { PetRecord } from './pet-record.ts';
import { type Intent, isStored, presentReady } from './pet-status.ts';
import type { PetStore } from './pet-store.ts';
import { failureOf, RefusedError, whereLost, whereRefused } from './store-error.ts';
import { InvalidPetError, type StorePet, tripleOf, wantedPet } from './store-pet.ts';

/** What the reconciler reads and writes by. */
export interface PetReconcilerOptions {
  readonly pets: ReadonlyStore<Pet>;
  readonly store: Pick<PetStore, 'timeoutMs' | 'add' | 'update' | 'delete' | 'find'>;
  /** The way to the store. */
  readonly circuit: Pick<Circuit, 'call' | 'isCut'>;
  readonly inventory: Inventory;
  /** Asks for stock to be taken soon. */
  readonly takeStock: () => void;
  readonly events: EventRecorder;
  /** Where there are Pets. Default: everywhere. */
  readonly namespaces: readonly string[] | undefined;
  /** Default: the clock. */
  readonly now?: () => Date;
}

/** An intent whose answer is missing is not settled yet: what was sent may still arrive. */
class TooEarlyError extends Error {
  override readonly name = 'TooEarlyError';
  readonly waitMs: number;

  constructor(waitMs: number) {
    super(`a pet may still be on its way into the store: in ${waitMs} ms it is looked for again`);
    this.waitMs = waitMs;
  }
}

/**
 * Keeps one pet in the store for a Pet, as its spec says.
 *
 * What makes it one, whatever fails: `status.id` is the pet, by no other mark is it found. Before the store is asked to add
 * one, the status says so (`status.intent`), and names the request. If the answer is lost, the intent stands, and the next
 * reconcile settles it before all else:
 *
 * - A store that remembers the names of requests is asked again, and answers as it did, or does it now.
 * - In another a pet is looked for that is just as the intent says and that no Pet holds, by what the API server says. That is
 *   ours, or as good as ours: it cannot be told apart. If there is none, another is added, though not before a request that
 *   was given up can be thought to be lost.
 *
 * Pets that are alike are added and looked for one at a time, so that none is taken by two.
 */
export class PetReconciler {
  readonly #options: PetReconcilerOptions;
  readonly #now: () => Date;
  readonly #alike = new OneAtATime();

  constructor(options: PetReconcilerOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => new Date());
  }

  async reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> {
    const pet = this.#options.pets.get(key);
    if (pet === undefined) return done;
    return finalizer({
      client: context.client,
      kind: Pet,
      object: pet,
      name: petFinalizer,
      apply: (guarded) => this.#attempt(guarded, context, (record) => this.#apply(record, context.signal)),
      cleanup: (leaving) => this.#attempt(leaving, context, (record) => this.#cleanUp(record, context.signal)),
    });
  }

  /** Does the work, and reports what kept it from being done. */
  async #attempt(pet: Pet, context: ReconcileContext, work: (record: PetRecord) => Promise<void>): Promise<Result> {
    const record = new PetRecord(pet, this.#options.events, context);
    try {
      await work(record);
      return done;
    } catch (error) {
      context.signal.throwIfAborted();
      if (error instanceof TooEarlyError) return this.#reportEarly(record, error);
      if (error instanceof OutsideDownError) return this.#reportDown(record, error);
      if (error instanceof InvalidPetError) {
        await record.report({ reason: 'InvalidPet', message: error.message });
        return done;
      }
      if (error instanceof RefusedError) {
        // Nothing was added, so there is nothing to look for; another spec is another request.
        await record.report({ reason: 'PetRefused', message: error.message }, { intent: null });
        return done;
      }
      if (failureOf(error) === undefined || !(error instanceof Error)) throw error;
      await record.report({ reason: 'PetStoreFailed', message: this.#waitingFor(record.pet, error.message) });
      throw error;
    }
  }

  async #reportDown(record: PetRecord, error: OutsideDownError): Promise<Result> {
    const reason = error.reason === 'PetStoreFailed' ? error.reason : 'PetStoreUnavailable';
    // Said once for a generation: each probe may fail with other words, and there may be thousands who wait.
    if (presentReady(record.pet)?.reason !== reason) {
      const message = this.#waitingFor(record.pet, `${error.message} (since ${error.since.toISOString()})`);
      await record.report({ reason, message });
    }
    return requeueAfter(error.retryAfterMs);
  }

  async #reportEarly(record: PetRecord, { waitMs }: TooEarlyError): Promise<Result> {
    if (record.pet.metadata.deletionTimestamp !== undefined) {
      await record.report({
        reason: 'Deleting',
        message: 'the deletion waits until a pet that may still be on its way into the store is looked for again',
      });
    }
    return requeueAfter(waitMs);
  }

  #waitingFor({ metadata, status }: Pet, message: string): string {
    if (metadata.deletionTimestamp === undefined) return message;
    return `the deletion waits until pet ${status?.id ?? 'that may have been added'} is deleted in the store: ${message}`;
  }

  async #apply(record: PetRecord, signal: AbortSignal): Promise<void> {
    const wanted = wantedPet(record.pet.spec);
    const { intent } = record.pet.status ?? {};
    if (intent !== undefined) {
      await this.#settled(record, intent, signal, (id) => record.write({ id, intent: null }));
    }
    const { id } = record.pet.status ?? {};
    if (id === undefined) return this.#add(record, wanted, signal);
    const deviation = this.#options.inventory.deviation(id);
    if (deviation === undefined && isStored(record.pet)) return;
    if (!(await this.#update(record, id, wanted, signal))) return;
    if (deviation === 'changed') record.tell('Warning', 'PetRestored', `pet ${id} was changed in the store: set back`);
    this.#options.inventory.settled(id);
    await record.report({ reason: 'Stored', message: `pet ${id} is in the store` });
  }

  /** False: there was no such pet any more, and another has been added. */
  async #update(record: PetRecord, id: string, wanted: StorePet, signal: AbortSignal): Promise<boolean> {
    const { circuit, store, inventory, takeStock } = this.#options;
    const lost = await circuit.call(
      (ending) =>
        store
          .update(id, wanted, ending)
          .catch(whereRefused)
          .then(() => undefined, whereLost),
      signal,
    );
    if (lost === undefined) return true;
    // Of the original's answer: only together with stock that was taken it counts.
    if (failureOf(lost) !== 'unknown' && inventory.deviation(id) !== 'missing') {
      takeStock();
      throw lost;
    }
    record.tell('Warning', 'PetLost', `pet ${id} is not in the store any more: it is added again`);
    await this.#add(record, wanted, signal);
    inventory.settled(id);
    return false;
  }

  /** Adds a pet that nobody has asked the store for before. */
  async #add(record: PetRecord, wanted: StorePet, signal: AbortSignal): Promise<void> {
    const { circuit, store } = this.#options;
    await this.#alike.run(tripleOf(wanted), signal, async () => {
      // In one call: a store that can be searched may be unable to add, and that is what a probe has to find out.
      const id = await circuit.call(async (ending) => {
        // Down, it refuses this before anything is written that would have to be looked for later; back, this harms nothing.
        if (circuit.isCut) await store.find(wanted, ending);
        const intent: Intent = { ...wanted, requestId: randomUUID(), since: this.#now().toISOString() };
        await record.write({ id: null, intent, conditions: this.#adding(record.pet) });
        return store.add(wanted, intent.requestId, ending).catch(whereRefused);
      }, signal);
      await record.report({ reason: 'Stored', message: `pet ${id} is in the store` }, { id, intent: null });
    });
  }

  #adding({ metadata, status }: Pet) {
    const { generation: observedGeneration } = metadata;
    const ready = { type: 'Ready', status: 'False', message: 'the pet is being added to the store' } as const;
    return setCondition(status?.conditions, { ...ready, reason: 'Adding', observedGeneration }, this.#now());
  }

  /**
   * Finds out what became of an intent whose answer is missing, and hands over the id of its pet if there is one. Until
   * `take` has resolved, nobody else looks for a pet that is alike.
   */
  async #settled(
    record: PetRecord,
    intent: Intent,
    signal: AbortSignal,
    take: (id: string) => Promise<void>,
  ): Promise<void> {
    const { circuit, store, namespaces } = this.#options;
    await this.#alike.run(tripleOf(intent), signal, async () => {
      const ageMs = this.#now().getTime() - Date.parse(intent.since);
      const { added, alike = [] } = await circuit.call(async (ending) => {
        const { ids, requestIdsKeptMs } = await store.find(intent, ending);
        // Half of the time, for its clock is not ours.
        if (ageMs >= requestIdsKeptMs / 2) return { alike: ids };
        return { added: await store.add(intent, intent.requestId, ending).catch(whereRefused) };
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

  async #cleanUp(record: PetRecord, signal: AbortSignal): Promise<void> {
    const { circuit, store, inventory } = this.#options;
    const remove = (id: string): Promise<void> => circuit.call((ending) => store.delete(id, ending), signal);
    const { id, intent } = record.pet.status ?? {};
    try {
      // Not written into the status: the finalizer is taken off the object as it was read.
      if (intent !== undefined) await this.#settled(record, intent, signal, remove);
    } catch (error) {
      // So it was not added either.
      if (!(error instanceof RefusedError)) throw error;
    }
    if (id === undefined) return;
    await remove(id);
    inventory.settled(id);
  }
}
