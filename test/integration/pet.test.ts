import { findCondition } from '@echoperator/runtime';
import { isInvalid } from '@echoperator/runtime/client';
import { Event } from '@echoperator/runtime/kinds';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { Pet } from '../../src/kinds/pet/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { customManifest } from '../../testkit/with-reason.ts';
import {
  operator,
  ready,
  removeAll,
  restartOperator,
  setUp,
  store,
  tearDown,
  thor,
  world,
} from './environment/operator-with-pet-store.ts';

beforeAll(() => setUp());
afterAll(() => tearDown());
afterEach(() => removeAll());

const tron = { name: 'Tron', type: 'cat', birthday: '2020-06-25T00:00:00Z' } as const;

/** The reasons of the Events about one Pet. */
async function eventsOf(uid: string): Promise<readonly string[]> {
  const { items } = await world.client.list(Event, { namespace: world.namespace });
  return items.flatMap(({ regarding, reason = '' }) => (regarding?.uid === uid ? [reason] : []));
}

describe('a Pet', () => {
  test('has a pet in the store and reports its id', async () => {
    await world.apply('thor', thor);
    const { status } = await ready('thor', 'Stored');
    expect(findCondition(status?.conditions, 'Ready')).toMatchObject({ status: 'True' });
    expect(await world.stored()).toEqual([{ id: status?.id, name: 'Thor', type: 'dog', birthday: '2021-04-01' }]);
    expect(status?.intent).toBeUndefined();
  });

  test.each([
    ['no name', { ...thor, name: '' }],
    ['a blank name', { ...thor, name: ' \t' }],
    ['a type that there is not', { ...thor, type: 'fish' }],
    ['a birthday that is none', { ...thor, birthday: 'yesterday' }],
  ])('with %s is refused by the API server', async (_, spec) => {
    const refused = world.client.create(Pet, customManifest(world.key('bad'), spec as Pet['spec']));
    expect(await refused.catch(isInvalid)).toBe(true);
  });

  test('with a spec that the operator cannot convert reports it, causes no call, and follows a corrected spec', async () => {
    const calls: string[] = [];
    world.store.onCall = (method) => void calls.push(method);
    try {
      // White space, though not to the schema.
      await world.apply('thor', { ...thor, name: '\u00a0\u2003' });
      const { status } = await ready('thor', 'InvalidPet');
      expect(findCondition(status?.conditions, 'Ready')?.message).toContain('spec.name');
      expect(calls.filter((method) => method !== 'SearchPets')).toEqual([]);
    } finally {
      world.store.onCall = () => {};
    }
    await world.apply('thor', thor);
    await world.settled();
  });

  test('that is up to date causes no write and no call when it is reconciled again', async () => {
    await world.apply('thor', thor);
    const { metadata } = await ready('thor', 'Stored');
    const calls: string[] = [];
    world.store.onCall = (method) => void calls.push(method);
    await restartOperator();
    await operator.waitUntilIdle('pet');
    world.store.onCall = () => {};
    expect((await world.get('thor')).metadata.resourceVersion).toBe(metadata.resourceVersion);
    expect(calls.filter((method) => method !== 'SearchPets')).toEqual([]);
  });
});

describe('the operator detects changes in the store within the resync period', () => {
  beforeAll(async () => {
    await restartOperator({ RESYNC_SECONDS: '1' });
  });

  afterAll(async () => {
    await restartOperator();
  });

  test('a pet that is changed in the store is restored', async () => {
    await world.apply('thor', thor);
    const { metadata, status } = await ready('thor', 'Stored');
    await world.pets.update({ id: status?.id ?? '', name: 'Changed', type: 'bird', birthday: '2000-01-01' });
    await world.settled();
    expect((await world.get('thor')).status?.id).toBe(status?.id);
    await eventually('an Event tells it', async () => (await eventsOf(metadata.uid)).includes('PetRestored'));
  });

  test('a pet that is deleted in the store is added once, with another id', async () => {
    await world.apply('thor', thor);
    await world.apply('tron', tron);
    const { metadata, status } = await ready('thor', 'Stored');
    await ready('tron', 'Stored');
    await world.pets.delete([status?.id ?? '']);
    await eventually('it is back', async () => {
      const { id } = (await world.get('thor')).status ?? {};
      return id !== undefined && id !== status?.id;
    });
    await world.settled();
    await eventually('an Event tells it', async () => (await eventsOf(metadata.uid)).includes('PetLost'));
    // The operator must not touch a pet that a person added.
    const own = await world.pets.add({ name: 'Own', type: 'cat', birthday: '2020-01-01' });
    await world.pets.delete([(await world.get('tron')).status?.id ?? '']);
    await eventually('that is back too', async () => (await world.stored()).some(({ name }) => name === 'Tron'));
    expect((await world.stored()).map(({ name }) => name).sort()).toEqual(['Own', 'Thor', 'Tron']);
    await world.pets.delete([own]);
  });
});

describe('each Pet has exactly one pet, whichever request or reply is lost', () => {
  test('all calls use one connection', async () => {
    const before = world.store.connections;
    await Promise.all(
      Array.from({ length: 20 }, (_, index) => world.apply(`pet-${index}`, { ...thor, name: `${index}` })),
    );
    await world.settled();
    expect(world.store.connections - before).toBeLessThanOrEqual(1);
  });
});

describe('while the pet store is down', () => {
  test('Pets report it, deletions wait and say why, and everything is completed when the store is back', async () => {
    await world.apply('leaving', thor);
    await world.apply('changing', tron);
    await ready('leaving', 'Stored');
    await ready('changing', 'Stored');
    const since = Date.now();
    await store.stop();
    await world.apply('coming', { ...thor, name: 'Coming' });
    await world.apply('changing', { ...tron, name: 'Changed' });
    await world.remove('leaving');
    for (const name of ['coming', 'changing']) {
      const { status } = await ready(name, 'PetStoreUnavailable');
      const condition = findCondition(status?.conditions, 'Ready');
      expect(condition?.status).toBe('False');
      expect(condition?.message).toContain(world.store.address);
    }
    const leaving = findCondition((await ready('leaving', 'PetStoreUnavailable')).status?.conditions, 'Ready');
    expect(leaving?.message).toMatch(/^the deletion waits until pet [0-9a-f-]{36} is deleted from the store: /);
    // The operator's own readiness is another thing.
    expect((await fetch(`http://127.0.0.1:${operator.healthPort}/readyz`)).status).toBe(200);
    expect(Date.parse(leaving?.lastTransitionTime ?? '')).toBeGreaterThanOrEqual(since - 1000);
    await store.restart();
    await eventually('the Pet is gone', () => world.isGone('leaving'));
    await world.settled(20_000);
  });
});
