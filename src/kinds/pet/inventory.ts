import { setTimeout as delay } from 'node:timers/promises';
import { keyOf, type ObjectKey, type ReadonlyStore } from '@echoperator/runtime';
import { currentReady, missingField } from '@echoperator/runtime/controller';
import { LinkedSignal } from '../../external/concurrency.ts';
import { Pet } from './kind.ts';
import type { FoundPet } from './pet-store.ts';
import { InvalidPetError, isStored, recordedId, wantedPet } from './store-pet.ts';

/** The reasons of Pets that wait for the store. */
const waitingReasons: ReadonlySet<string> = new Set(['PetStoreUnavailable', 'PetStoreFailed']);

/** How the pet in the store deviates from its Pet. */
export type Deviation = 'missing' | 'changed';

/**
 * Finds drift in the store, which has no watch and no search by id. So one search reads all pets and compares them with
 * all Pets by id as they arrive. Keeps only the deviations.
 */
export class Inventory {
  readonly #pets: ReadonlyStore<Pet>;
  #deviations = new Map<string, Deviation>();
  /** The ids that were corrected since the last search began. */
  #corrected = new Set<string>();

  constructor(pets: ReadonlyStore<Pet>) {
    this.#pets = pets;
  }

  /** Whether a Pet reports that it waits until the store can be used. Its reconciles call the store. */
  hasWaitingPet(): boolean {
    for (const pet of this.#pets.list()) if (waitingReasons.has(currentReady(pet)?.reason ?? '')) return true;
    return false;
  }

  /** The deviation of the pet with this id according to the last search. */
  deviation(id: string): Deviation | undefined {
    return this.#deviations.get(id);
  }

  /** Removes the deviation after the pet was corrected or got another id. */
  markCorrected(id: string): void {
    this.#deviations.delete(id);
    this.#corrected.add(id);
  }

  /**
   * Compares all pets of the store with the Pets. Omits Pets that have no id at the beginning, because the search may
   * not return pets that are added later. Omits Pets that are corrected meanwhile, because the search may return an
   * earlier state. Ignores pets without a Pet: they belong to somebody else.
   *
   * @param all every pet of the store. If it throws, the deviations of the last search remain.
   * @returns the keys of the Pets whose pets deviate.
   */
  async compare(all: AsyncIterable<FoundPet>): Promise<readonly ObjectKey[]> {
    const corrected = new Set<string>();
    this.#corrected = corrected;
    const expected = new Map<string, ObjectKey>();
    for (const pet of this.#pets.list()) {
      const id = recordedId(pet);
      if (id !== undefined && pet.metadata.deletionTimestamp === undefined) expected.set(id, keyOf(pet));
    }
    const found: { readonly id: string; readonly key: ObjectKey; readonly deviation: Deviation }[] = [];
    for await (const stored of all) {
      const key = expected.get(stored.id);
      if (key === undefined) continue;
      expected.delete(stored.id);
      if (isChanged(this.#pets.get(key), stored)) found.push({ id: stored.id, key, deviation: 'changed' });
    }
    for (const [id, key] of expected) found.push({ id, key, deviation: 'missing' });
    const open = found.filter(({ id }) => !corrected.has(id));
    this.#deviations = new Map(open.map(({ id, deviation }) => [id, deviation]));
    return open.map(({ key }) => key);
  }
}

/** Whether others have changed the pet. Not if an update of its Pet has yet to be sent. */
function isChanged(pet: Pet | undefined, { id, name, type, birthday }: FoundPet): boolean {
  // A Pet from before its definition required a spec must not keep the others from being compared.
  if (pet === undefined || recordedId(pet) !== id || !isStored(pet) || missingField(Pet, pet) !== undefined)
    return false;
  try {
    const wanted = wantedPet(pet.spec);
    return wanted.name !== name || wanted.type !== type || wanted.birthday !== birthday;
  } catch (error) {
    if (error instanceof InvalidPetError) return false;
    throw error;
  }
}

/** Options of a {@link Sweep}. */
export interface SweepOptions {
  /** Searches the store. Returns the keys to enqueue. */
  readonly search: (signal: AbortSignal) => Promise<readonly ObjectKey[]>;
  /** The pause between two sweeps, in milliseconds, with ±10 % jitter. */
  readonly everyMs: number;
  /** The pause after a failed sweep, in milliseconds; at least 1,000. */
  readonly retryAfterMs: number;
  /** Called when a sweep fails. */
  readonly onError: (error: unknown) => void;
}

/** A key source that searches the store at the start, periodically, and early on request. */
export class Sweep {
  readonly #options: SweepOptions;
  #requested = new AbortController();

  constructor(options: SweepOptions) {
    this.#options = options;
  }

  /**
   * Requests the next sweep early, but at least a second after the last one, so that one sweep serves many requests.
   */
  requestEarly(): void {
    this.#requested.abort();
  }

  /** Runs until the signal is aborted. */
  async run(
    enqueue: (key: ObjectKey, options: { readonly priority: 'low' }) => void,
    signal: AbortSignal,
  ): Promise<void> {
    while (!signal.aborted) {
      this.#requested = new AbortController();
      const waitMs = await this.#sweep(enqueue, signal);
      await delay(Math.min(waitMs, minPauseMs), undefined, { signal }).catch(() => {});
      using either = new LinkedSignal(signal, this.#requested.signal);
      await delay(Math.max(0, waitMs - minPauseMs), undefined, { signal: either.signal }).catch(() => {});
    }
  }

  async #sweep(
    enqueue: (key: ObjectKey, options: { readonly priority: 'low' }) => void,
    signal: AbortSignal,
  ): Promise<number> {
    const { search, everyMs, retryAfterMs, onError } = this.#options;
    try {
      for (const key of await search(signal)) enqueue(key, { priority: 'low' });
      return everyMs * (0.9 + Math.random() / 5);
    } catch (error) {
      if (!signal.aborted) onError(error);
      return Math.max(retryAfterMs, minPauseMs);
    }
  }
}

/** The pause before a requested sweep, in milliseconds. */
const minPauseMs = 1000;
