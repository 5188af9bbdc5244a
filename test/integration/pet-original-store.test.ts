import { findCondition } from '@echoperator/runtime';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { Pet } from '../../src/kinds/pet/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import type { OperatorProcess } from '../../testkit/operator-process.ts';
import { withReason } from '../../testkit/with-reason.ts';
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

test('a lost answer to AddPets creates no second pet', async () => {
  world.store.inject('answer lost', 'AddPets');
  await world.apply('thor', thor);
  await world.settled();
  expect(world.store.faultCount).toBeGreaterThan(0);
  expect(store.pets.size).toBe(1);
});

test('a request that never arrived is sent again', async () => {
  world.store.inject('not sent', 'AddPets', 2);
  await world.apply('thor', thor);
  await world.settled();
  expect(store.pets.size).toBe(1);
});

test('no pet belongs to two Pets with equal specs', async () => {
  world.store.inject('answer lost', 'AddPets', 2);
  await Promise.all(Array.from({ length: 8 }, (_, index) => world.apply(`twin-${index}`, thor)));
  await world.settled(80_000);
  expect(store.pets.size).toBe(8);
});

test('a Pet whose answer was lost is deleted with its pet', async () => {
  world.store.inject('answer lost', 'AddPets');
  await world.apply('thor', thor);
  await eventually('it was added', async () => store.pets.size === 1);
  await world.remove('thor');
  await eventually('the Pet is gone', () => world.isGone('thor'));
  expect(store.pets.size).toBe(0);
});

test('a deletion that waits for a missing answer says so', async () => {
  // It waits for twice as long.
  await operator.stop();
  operator = await world.operator({ PETSTORE_TIMEOUT_SECONDS: '3' });
  world.store.inject('not sent', 'AddPets', Number.POSITIVE_INFINITY);
  await world.apply('thor', thor);
  await eventually('it is tried', async () => (await world.get('thor')).status?.intent !== undefined);
  await world.remove('thor');
  const { status } = await withReason(world, Pet, world.key('thor'), 'Deleting');
  expect(findCondition(status?.conditions, 'Ready')?.message).toContain('the store may still add a pet');
  await eventually('the Pet is gone', () => world.isGone('thor'));
  await operator.stop();
  operator = await world.operator(settings);
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

  test('a pet that still exists is updated', async () => {
    await applyAll('');
    const ids = (await world.settled()).map(({ status }) => status?.id);
    await applyAll(' renamed');
    expect((await world.settled()).map(({ status }) => status?.id)).toEqual(ids);
  });
});

test('a pet that the store has forgotten is added again', async () => {
  await operator.stop();
  operator = await world.operator({ ...settings, RESYNC_SECONDS: '1' });
  await world.apply('thor', thor);
  await world.settled();
  store.pets.clear();
  await world.settled();
  expect(store.pets.size).toBe(1);
  await operator.stop();
  operator = await world.operator(settings);
  // A rename finds out too.
  store.pets.clear();
  await world.apply('thor', { ...thor, name: 'Loki' });
  await world.settled();
  expect([...store.pets.values()].map(({ name }) => name)).toEqual(['Loki']);
});

test('an operator that is killed during AddPets creates no second pet', async () => {
  world.store.inject('answer lost', 'AddPets');
  let killed: Promise<unknown> | undefined;
  world.store.onCall = (method) => {
    if (method === 'AddPets') killed ??= operator.stop('SIGKILL');
  };
  await world.apply('thor', thor);
  await eventually('it is killed', async () => killed !== undefined);
  world.store.onCall = () => {};
  await killed;
  operator = await world.operator(settings);
  await world.settled();
  expect(store.pets.size).toBe(1);
});

test('a pet that another program added is not deleted with a Pet whose request never arrived', async () => {
  const id = await store.addForeign();
  world.store.inject('not sent', 'AddPets', Number.POSITIVE_INFINITY);
  await world.apply('thor', thor);
  await eventually('it is tried', async () => (await world.get('thor')).status?.intent !== undefined);
  await world.remove('thor');
  await eventually('the Pet is gone', () => world.isGone('thor'));
  const left = [...store.pets.keys()];
  store.pets.clear();
  expect(left).toEqual([id]);
});
