import { setTimeout as delay } from 'node:timers/promises';
import type { Pet } from '../../api/index.ts';
import { keyOf, type ObjectKey, type ReadonlyStore } from '../../runtime/index.ts';
import type { FoundPet } from './pet-store.ts';
import { InvalidPetError, isStored, wantedPet } from './store-pet.ts';

/** How the store's pet differs from what a Pet asks for. */
export type Deviation = 'missing' | 'changed';

/**
 * What the store was last found to have, where that is not what Pets ask for: what no watch tells of. The store knows no
 * search by id, so all pets are read, once for all Pets, and held against them by id as they come; none is kept.
 */
export class Inventory {
  readonly #pets: ReadonlyStore<Pet>;
  #deviations = new Map<string, Deviation>();
  /** Settled since the last stock began to be taken. */
  #settled = new Set<string>();

  constructor(pets: ReadonlyStore<Pet>) {
    this.#pets = pets;
  }

  /** Of the pet with this id, as far as was found. */
  deviation(id: string): Deviation | undefined {
    return this.#deviations.get(id);
  }

  /** It is as it should be by now, or has another id. */
  settled(id: string): void {
    this.#deviations.delete(id);
    this.#settled.add(id);
  }

  /**
   * Takes stock. Pets that have no id yet when it begins are left out, for the store may have been asked before they were
   * there, and so are those that are settled meanwhile: the store may show what was before. Pets that the store has and no Pet
   * knows are somebody else's.
   *
   * @param all every pet of the store. If it throws, what was found before still holds.
   * @returns the keys of the Pets whose pet differs.
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

/** One whose update is still to be sent is not changed: it is on its way. */
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
  /** Takes stock, and tells of which objects something is to be done. */
  readonly take: (signal: AbortSignal) => Promise<readonly ObjectKey[]>;
  /** From the end of one to the beginning of the next, in milliseconds, give or take a tenth. */
  readonly everyMs: number;
  /** From one that failed to the next, in milliseconds: 1,000 at the least. */
  readonly retryAfterMs: number;
  /** Is told of one that failed. */
  readonly failed: (error: unknown) => void;
}

/** Takes stock at the start, then from time to time, and early where somebody asks for it. An event source. */
export class Sweep {
  readonly #options: SweepOptions;
  #asked = new AbortController();

  constructor(options: SweepOptions) {
    this.#options = options;
  }

  /** Asks for the next one to begin soon: in a second at the earliest, so that many who ask are served by one. */
  ask(): void {
    this.#asked.abort();
  }

  /** Until the signal is aborted. */
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

/** One that was asked for begins so long after the one before, in milliseconds. */
const askedAfterMs = 1000;
