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
  }

  /**
   * Takes stock. Pets that have no id yet when it begins are left out, for the store may have been asked before they were
   * there; those that the store has and no Pet knows are somebody else's.
   *
   * @param all every pet of the store. If it throws, what was found before still holds.
   * @returns the keys of the Pets whose pet differs.
   */
  async take(all: AsyncIterable<FoundPet>): Promise<readonly ObjectKey[]> {
    const expected = new Map<string, ObjectKey>();
    for (const pet of this.#pets.list()) {
      const { id } = pet.status ?? {};
      if (id !== undefined && pet.metadata.deletionTimestamp === undefined) expected.set(id, keyOf(pet));
    }
    const found = new Map<string, Deviation>();
    const keys: ObjectKey[] = [];
    for await (const stored of all) {
      const key = expected.get(stored.id);
      if (key === undefined) continue;
      expected.delete(stored.id);
      if (!isChanged(this.#pets.get(key), stored)) continue;
      found.set(stored.id, 'changed');
      keys.push(key);
    }
    for (const [id, key] of expected) {
      found.set(id, 'missing');
      keys.push(key);
    }
    this.#deviations = found;
    return keys;
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
