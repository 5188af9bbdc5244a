import { setTimeout as delay } from 'node:timers/promises';
import type { Pet } from '../../api/index.ts';
import { keyOf, type ObjectKey, type ReadonlyStore } from '../../runtime/index.ts';
import type { FoundPet } from './pet-store.ts';
import { InvalidPetError, isStored, wantedPet } from './store-pet.ts';

/** How the pet in the store differs from what a Pet asks for. */
export type Deviation = 'missing' | 'changed';

/**
 * Finds drift in the store, of which no watch tells. There is no search by id, so one search reads all pets for all Pets and
 * compares them by id as they arrive. Only the deviations are kept.
 */
export class Inventory {
  readonly #pets: ReadonlyStore<Pet>;
  #deviations = new Map<string, Deviation>();
  /** The ids that were settled since the last search began. */
  #settled = new Set<string>();

  constructor(pets: ReadonlyStore<Pet>) {
    this.#pets = pets;
  }

  /** The deviation of the pet with this id, as the last search found it. */
  deviation(id: string): Deviation | undefined {
    return this.#deviations.get(id);
  }

  /** Removes the deviation: the pet is as its Pet asks by now, or has another id. */
  settled(id: string): void {
    this.#deviations.delete(id);
    this.#settled.add(id);
  }

  /**
   * Compares all pets of the store with the Pets. Leaves out Pets without an id when it begins, because the search may not return
   * pets that are added later, and Pets that are settled meanwhile, because the search may return the state before. A pet that no
   * Pet has belongs to somebody else.
   *
   * @param all every pet of the store. If it throws, the deviations of the last search remain.
   * @returns the keys of the Pets whose pet deviates.
   */
  async take(all: AsyncIterable<FoundPet>): Promise<readonly ObjectKey[]> {
    const settled = new Set<string>();
    this.#settled = settled;
    const expected = new Map<string, ObjectKey>();
    for (const pet of this.#pets.list()) {
      const { id } = pet.status ?? {};
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
    const open = found.filter(({ id }) => !settled.has(id));
    this.#deviations = new Map(open.map(({ id, deviation }) => [id, deviation]));
    return open.map(({ key }) => key);
  }
}

/** A Pet whose update is still to be sent has not been changed by others. */
function isChanged(pet: Pet | undefined, { id, name, type, birthday }: FoundPet): boolean {
  if (pet === undefined || pet.status?.id !== id || !isStored(pet)) return false;
  try {
    const wanted = wantedPet(pet.spec);
    return wanted.name !== name || wanted.type !== type || wanted.birthday !== birthday;
  } catch (error) {
    if (error instanceof InvalidPetError) return false;
    throw error;
  }
}

/** What a {@link Sweep} is made of. */
export interface SweepOptions {
  /** Searches the store and returns the keys that are to be reconciled. */
  readonly take: (signal: AbortSignal) => Promise<readonly ObjectKey[]>;
  /** The pause between two sweeps, in milliseconds, with ±10 % jitter. */
  readonly everyMs: number;
  /** The pause after a sweep that failed, in milliseconds: 1,000 at the least. */
  readonly retryAfterMs: number;
  /** Called when a sweep fails. */
  readonly failed: (error: unknown) => void;
}

/** An event source that sweeps the store at the start, periodically, and early on request. */
export class Sweep {
  readonly #options: SweepOptions;
  #asked = new AbortController();

  constructor(options: SweepOptions) {
    this.#options = options;
  }

  /** Requests the next sweep early: a second after the last one at the earliest, so that one sweep serves many requests. */
  ask(): void {
    this.#asked.abort();
  }

  /** Runs until the signal is aborted. */
  async run(
    enqueue: (key: ObjectKey, options: { readonly priority: 'low' }) => void,
    signal: AbortSignal,
  ): Promise<void> {
    while (!signal.aborted) {
      this.#asked = new AbortController();
      const waitMs = await this.#sweep(enqueue, signal);
      await delay(Math.min(waitMs, askedAfterMs), undefined, { signal }).catch(() => {});
      const either = AbortSignal.any([signal, this.#asked.signal]);
      await delay(Math.max(0, waitMs - askedAfterMs), undefined, { signal: either }).catch(() => {});
    }
  }

  async #sweep(
    enqueue: (key: ObjectKey, options: { readonly priority: 'low' }) => void,
    signal: AbortSignal,
  ): Promise<number> {
    const { take, everyMs, retryAfterMs, failed } = this.#options;
    try {
      for (const key of await take(signal)) enqueue(key, { priority: 'low' });
      return everyMs * (0.9 + Math.random() / 5);
    } catch (error) {
      if (!signal.aborted) failed(error);
      return Math.max(retryAfterMs, askedAfterMs);
    }
  }
}

/** How soon a requested sweep follows the last one, in milliseconds. */
const askedAfterMs = 1000;
