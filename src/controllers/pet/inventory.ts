import type { Pet } from '../../api/index.ts';
import { keyOf, type ObjectKey, type ReadonlyStore } from '../../runtime/index.ts';
import { isStored } from './pet-status.ts';
import type { FoundPet } from './pet-store.ts';
import { InvalidPetError, wantedPet } from './store-pet.ts';

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
