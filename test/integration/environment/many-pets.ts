import { expect } from '@jest/globals';
import { forEachConcurrently } from '../../../packages/testing/src/for-each-concurrently.ts';
import type { Pet } from '../../../src/kinds/pet/kind.ts';
import type { PetWorld } from './pet-world.ts';

const thor = { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' } as const satisfies Pet['spec'];
const tron = { name: 'Tron', type: 'cat', birthday: '2020-06-25T00:00:00Z' } as const satisfies Pet['spec'];

/** Creates, changes and deletes many Pets. Verifies that the store gets each addition, update and deletion once. */
export async function expectManyPets(world: PetWorld, count: number): Promise<void> {
  const settleMs = 120_000 + count * 60;
  const names = Array.from({ length: count }, (_, index) => `pet-${index}`);
  const calls: Record<string, number> = {};
  world.store.onCall = (method) => {
    calls[method] = (calls[method] ?? 0) + 1;
  };
  try {
    await forEachConcurrently(names, (name) => world.apply(name, { ...thor, name }));
    await world.settled(settleMs);
    await forEachConcurrently(names, (name) => world.apply(name, { ...tron, name: `${name} renamed` }));
    await world.settled(settleMs);
    await forEachConcurrently(names, (name) => world.remove(name));
    expect(await world.settled(settleMs)).toEqual([]);
  } finally {
    world.store.onCall = () => {};
  }
  expect(calls).toMatchObject({ AddPets: count, UpdatePets: count, DeletePets: count });
  // The operator does not search our store before each update.
  expect(calls.SearchPets ?? 0).toBeLessThan(count / 10);
}
