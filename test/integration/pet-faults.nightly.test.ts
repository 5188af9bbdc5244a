import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import { ready, removeAll, setUp, store, tearDown, thor, world } from './environment/operator-with-pet-store.ts';

beforeAll(() => setUp());
afterAll(() => tearDown());
afterEach(() => removeAll());

describe('each Pet has exactly one pet, whichever request or reply is lost', () => {
  test('a failed search is not taken for an empty store', async () => {
    world.store.inject('answer lost', 'AddPets');
    world.store.inject('not sent', 'SearchPets', 2);
    await world.apply('thor', thor);
    await world.settled();
    expect(await world.stored()).toHaveLength(1);
  });
});

describe('while the pet store is down', () => {
  test('the operator sends few calls, however many Pets there are', async () => {
    await store.stop();
    let calls = 0;
    await world.apply('first', thor);
    await ready('first', 'PetStoreUnavailable');
    world.store.onCall = () => {
      calls += 1;
    };
    await Promise.all(
      Array.from({ length: 50 }, (_, index) => world.apply(`pet-${index}`, { ...thor, name: `${index}` })),
    );
    await Promise.all(Array.from({ length: 50 }, (_, index) => ready(`pet-${index}`, 'PetStoreUnavailable')));
    world.store.onCall = () => {};
    expect(calls).toBeLessThan(25);
    await store.restart();
    await world.settled();
  });

  test('a pet store that is killed during many calls has no duplicate pet afterwards', async () => {
    const names = Array.from({ length: 60 }, (_, index) => `pet-${index}`);
    const adding = Promise.all(names.map((name) => world.apply(name, { ...thor, name })));
    await eventually('some are there', async () => (await world.stored()).length > 5);
    await store.stop('SIGKILL');
    await adding;
    await store.restart();
    await world.settled();
  });

  test('connections that break repeatedly leave no duplicate pet', async () => {
    const names = Array.from({ length: 60 }, (_, index) => `pet-${index}`);
    let calls = 0;
    world.store.onCall = () => {
      calls += 1;
      if (calls % 7 === 0) world.store.cut();
    };
    await Promise.all(names.map((name) => world.apply(name, { ...thor, name })));
    await eventually('most were tried', async () => calls > 70);
    world.store.onCall = () => {};
    await world.settled();
  });
});
