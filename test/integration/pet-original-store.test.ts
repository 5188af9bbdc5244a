import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import type { OperatorProcess } from '../../testkit/operator-process.ts';
import { OriginalPetStore } from './environment/original-pet-store.ts';
import { PetWorld } from './environment/pet-world.ts';

/** The tutorial's store knows nothing of the names of requests: what was added is found by what it is like. */
let store: OriginalPetStore;
let world: PetWorld;
let operator: OperatorProcess;

beforeAll(async () => {
  store = await OriginalPetStore.start();
  world = await PetWorld.start(store.port);
  operator = await world.operator(settings);
});

afterAll(async () => {
  await operator?.stop();
  await world?.[Symbol.asyncDispose]();
  await store?.[Symbol.asyncDispose]();
});

afterEach(async () => {
  world.store.clear();
  await Promise.all((await world.resources()).map(({ metadata }) => world.remove(metadata.name)));
  try {
    expect(await world.settled()).toEqual([]);
  } finally {
    // A pet that one test leaves behind must not fail the others too.
    store.pets.clear();
  }
});

const settings = { PETSTORE_TIMEOUT_SECONDS: '1' };
const thor = { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' } as const;

test('a Pet is added, renamed and deleted', async () => {
  await world.apply('thor', { ...thor, name: '  Thor ' });
  const [before] = await world.settled();
  await world.apply('thor', { ...thor, name: 'Loki' });
  const [after] = await world.settled();
  expect(after?.status?.id).toBe(before?.status?.id);
});

describe('a store that was killed and started again', () => {
  const names = Array.from({ length: 15 }, (_, index) => `pet-${index}`);
  const applyAll = (suffix: string) =>
    Promise.all(names.map((name) => world.apply(name, { ...thor, name: name + suffix })));

  test.each(['a connection that broke', 'a proxy that keeps the connection'])(
    'behind %s gets no update of pets that it no longer has: they are added again',
    async (network) => {
      await applyAll('');
      await world.settled();
      store.restart();
      if (network === 'a connection that broke') world.store.cut();
      const calls: Record<string, number> = {};
      world.store.onCall = (method) => {
        calls[method] = (calls[method] ?? 0) + 1;
      };
      await applyAll(' renamed');
      await eventually('the store is asked again', async () => (calls.AddPets ?? 0) > 0 || store.isWedged);
      expect(store.isWedged).toBe(false);
      await world.settled();
      world.store.onCall = () => {};
      expect(calls).toMatchObject({ AddPets: names.length });
      // A pet that was found missing before its rename is added with the old name first, then updated.
      expect(store.isWedged).toBe(false);
    },
  );
});
