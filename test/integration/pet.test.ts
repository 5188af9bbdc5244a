import { Code } from '@connectrpc/connect';
import { findCondition } from '@echoperator/runtime';
import { isInvalid } from '@echoperator/runtime/client';
import { Event } from '@echoperator/runtime/kinds';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { Pet, petFinalizer } from '../../src/kinds/pet/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { customManifest } from '../../testkit/with-reason.ts';
import { forbid } from './environment/admission-policy.ts';
import { expectManyPets } from './environment/many-pets.ts';
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

async function storedUnder(id: string | undefined) {
  return (await world.stored()).find((pet) => pet.id === id);
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
    ['name', { ...thor, name: 'Loki' }],
    ['type', { ...thor, type: 'reptile' as const }],
    ['birthday', { ...thor, birthday: '2019-12-31T00:00:00Z' }],
  ])('with another %s changes its pet', async (_, changed) => {
    await world.apply('thor', thor);
    const { status } = await ready('thor', 'Stored');
    await world.apply('thor', changed);
    await world.settled();
    const { metadata, status: after } = await ready('thor', 'Stored');
    expect(after?.id).toBe(status?.id);
    expect(await world.stored()).toHaveLength(1);
    await eventually('an Event tells it', async () => (await eventsOf(metadata.uid)).includes('PetUpdated'));
  });

  test.each([
    ['2020-01-01T23:30:00-05:00', '2020-01-02'],
    ['2020-03-01T00:30:00.5+01:00', '2020-02-29'],
    ['2021-04-01T12:00:00Z', '2021-04-01'],
  ])('with the birthday %s has a pet that was born on %s, the day in UTC', async (birthday, day) => {
    await world.apply('thor', { ...thor, birthday });
    const { status } = await ready('thor', 'Stored');
    expect((await storedUnder(status?.id))?.birthday).toBe(day);
  });

  test('that is deleted deletes its pet and keeps the finalizers of others', async () => {
    const metadata = { ...world.key('thor'), generation: 0, finalizers: ['example.com/first'] };
    await world.client.create(Pet, { metadata, spec: thor });
    await ready('thor', 'Stored');
    expect((await world.get('thor')).metadata.finalizers).toEqual(['example.com/first', petFinalizer]);
    await world.remove('thor');
    await eventually('the pet is gone', async () => (await world.stored()).length === 0);
    const left = await eventually('our finalizer is gone', async () => {
      const pet = await world.get('thor');
      return !pet.metadata.finalizers?.includes(petFinalizer) && pet;
    });
    expect(left.metadata.finalizers).toEqual(['example.com/first']);
    await world.client.patch(Pet, world.key('thor'), { type: 'merge', body: { metadata: { finalizers: null } } });
    await eventually('the Pet is gone', () => world.isGone('thor'));
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

  test('whose finalizer the API server refuses to add or to remove reports it, and continues when it is allowed', async () => {
    const message = 'no Pet is changed here';
    for (const change of ['add', 'remove']) {
      const policy = await forbid(world.client, {
        namespace: world.namespace,
        operation: 'UPDATE',
        resource: 'pets',
        group: Pet.group,
        expression: 'false',
        message,
        trial: () => world.apply('trial', thor),
      });
      try {
        if (change === 'add') await world.apply('thor', thor);
        else await world.remove('thor');
        const { status } = await ready('thor', 'Refused');
        expect(findCondition(status?.conditions, 'Ready')?.message).toContain(message);
      } finally {
        await policy.remove();
      }
      if (change === 'add') await ready('thor', 'Stored');
      else await eventually('the Pet is gone', () => world.isGone('thor'));
    }
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

  test('a pet that the store refuses is retried without a write or an Event', async () => {
    const refused = { code: Code.InvalidArgument, message: 'no dogs' };
    world.store.inject(refused, 'AddPets', Number.POSITIVE_INFINITY);
    await world.apply('thor', thor);
    const { metadata } = await ready('thor', 'PetRefused');
    const faultsBefore = world.store.faultCount;
    await eventually('it is tried again', async () => world.store.faultCount >= faultsBefore + 3);
    expect((await world.get('thor')).metadata.resourceVersion).toBe(metadata.resourceVersion);
    expect(await eventsOf(metadata.uid)).toEqual(['PetRefused']);
    world.store.clear();
    await world.settled();
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
  test('a lost answer to AddPets creates no second pet', async () => {
    const faultsBefore = world.store.faultCount;
    world.store.inject('answer lost', 'AddPets', 2);
    await world.apply('thor', thor);
    await ready('thor', 'Stored');
    expect(world.store.faultCount - faultsBefore).toBe(2);
    await world.settled();
    expect(await world.stored()).toHaveLength(1);
  });

  test('a failed status write after AddPets creates no second pet', async () => {
    let writes = 0;
    const second = world.api.inject(
      { type: 'error-response', status: 500, reason: 'InternalError' },
      {
        on: ({ method, path }) => method === 'PATCH' && path.endsWith('/pets/thor/status') && ++writes === 2,
        times: 1,
      },
    );
    await world.apply('thor', thor);
    await ready('thor', 'Stored');
    second.off();
    expect(second.count).toBe(1);
    await world.settled();
    expect(await world.stored()).toHaveLength(1);
  });

  test('a Pet that is renamed while it is being added has one pet with the new name', async () => {
    world.store.inject('answer lost', 'AddPets');
    let before: Pet | undefined;
    world.store.onCall = (method) => {
      if (method !== 'AddPets' || before !== undefined) return;
      void world.apply('thor', { ...thor, name: 'Loki' }).then((pet) => {
        before = pet;
      });
    };
    await world.apply('thor', thor);
    await eventually('it is renamed', async () => before);
    world.store.onCall = () => {};
    await world.settled();
    expect((await world.stored()).map(({ name }) => name)).toEqual(['Loki']);
  });

  test('a Pet that is deleted while it is being added leaves no pet', async () => {
    world.store.inject('answer lost', 'AddPets');
    world.store.inject('not sent', 'SearchPets', 2);
    await world.apply('thor', thor);
    await eventually('the answer is lost', async () => (await world.stored()).length === 1);
    await world.remove('thor');
    await eventually('the Pet is gone', () => world.isGone('thor'));
    expect(await world.stored()).toEqual([]);
  });

  test('a refused search does not end an intent, and a deletion waits for the search', async () => {
    world.store.inject('answer lost', 'AddPets');
    const refused = { code: Code.InvalidArgument, message: 'not such a filter' };
    world.store.inject(refused, 'SearchPets', Number.POSITIVE_INFINITY);
    await world.apply('thor', thor);
    await ready('thor', 'PetStoreFailed');
    expect((await world.get('thor')).status?.intent).toBeDefined();
    await world.remove('thor');
    await eventually('the deletion waits', async () => {
      const ready = findCondition((await world.get('thor')).status?.conditions, 'Ready');
      return ready?.message.startsWith('the deletion waits until a pet that may have been added is deleted');
    });
    expect(await world.stored()).toHaveLength(1);
    world.store.clear();
    await eventually('the Pet is gone', () => world.isGone('thor'));
    expect(await world.stored()).toEqual([]);
  });

  test('all calls use one connection', async () => {
    const before = world.store.connections;
    await Promise.all(
      Array.from({ length: 20 }, (_, index) => world.apply(`pet-${index}`, { ...thor, name: `${index}` })),
    );
    await world.settled();
    expect(world.store.connections - before).toBeLessThanOrEqual(1);
  });

  test('Pets with equal specs have one pet each', async () => {
    world.store.inject('answer lost', 'AddPets', 2);
    await Promise.all(Array.from({ length: 8 }, (_, index) => world.apply(`twin-${index}`, thor)));
    await world.settled();
    expect(await world.stored()).toHaveLength(8);
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

  test('a store that answers with an error also gets few calls, and everything is completed when it works again', async () => {
    await world.apply('leaving', thor);
    await ready('leaving', 'Stored');
    const full = { code: Code.ResourceExhausted, message: 'the disk is full' };
    for (const method of ['AddPets', 'DeletePets']) world.store.inject(full, method, Number.POSITIVE_INFINITY);
    await world.apply('first', thor);
    await ready('first', 'PetStoreFailed');
    const faultsBefore = world.store.faultCount;
    const names = Array.from({ length: 50 }, (_, index) => `pet-${index}`);
    await Promise.all(names.map((name) => world.apply(name, { ...thor, name })));
    await world.remove('leaving');
    for (const name of ['leaving', ...names]) await ready(name, 'PetStoreFailed');
    expect(world.store.faultCount - faultsBefore).toBeLessThan(25);
    const condition = findCondition((await world.get('pet-0')).status?.conditions, 'Ready');
    expect(condition?.message).toContain('the disk is full');
    // Nothing was written that would have to be looked for: only those that have tried have an intent.
    const intents = (await world.resources()).filter(({ status }) => status?.intent !== undefined);
    expect(intents.length).toBeLessThan(25);
    const metrics = await (await fetch(`http://127.0.0.1:${operator.metricsPort}/metrics`)).text();
    expect(metrics).toContain('echoperator_outside_up{system="petstore"} 0');
    world.store.clear();
    await world.settled(20_000);
  });

  test('a store that cannot search still gets writes', async () => {
    const refused = { code: Code.PermissionDenied, message: 'no searches' };
    world.store.inject(refused, 'SearchPets', Number.POSITIVE_INFINITY);
    const faultsBefore = world.store.faultCount;
    // It reads all pets when it starts.
    await restartOperator();
    await eventually('a search is refused', async () => world.store.faultCount > faultsBefore);
    await world.apply('thor', thor);
    await ready('thor', 'Stored');
  });
});

test('each of 40 Pets is added, changed and deleted exactly once in the store', async () => {
  // On a busy machine a call may take longer than the other tests allow, and is then made again.
  await restartOperator({ PETSTORE_TIMEOUT_SECONDS: '60' });
  try {
    await expectManyPets(world, 40);
  } finally {
    await restartOperator();
  }
});

test('a Pet whose controller is off says so, and nothing is added to the store', async () => {
  await restartOperator({ CONTROLLERS: 'echo' });
  try {
    await world.apply('thor', thor);
    await ready('thor', 'ControllerDisabled');
    expect((await world.get('thor')).metadata.finalizers).toBeUndefined();
    expect(await world.stored()).toEqual([]);
  } finally {
    await restartOperator();
  }
  await world.settled();
});
