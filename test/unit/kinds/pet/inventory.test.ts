import { keyString, type ObjectKey, type ReadonlyStore } from '@echoperator/runtime';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { Inventory, Sweep } from '../../../../src/kinds/pet/inventory.ts';
import type { Pet } from '../../../../src/kinds/pet/kind.ts';
import type { FoundPet } from '../../../../src/kinds/pet/pet-store.ts';

const pets = new Map<string, Pet>();
/** As much of a store as is read of it. */
const store = {
  list: () => pets.values(),
  get: (key: ObjectKey) => pets.get(keyString(key)),
} as unknown as ReadonlyStore<Pet>;

function pet(name: string, id: string | undefined, rest: { generation?: number; leaving?: boolean } = {}): Pet {
  const condition = { type: 'Ready', status: 'True', reason: 'Stored', message: '', observedGeneration: 1 } as const;
  return {
    metadata: {
      name,
      namespace: 'default',
      uid: name,
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
      generation: rest.generation ?? 1,
      ...(rest.leaving && { deletionTimestamp: '2026-01-02T00:00:00Z' }),
    },
    spec: { name, type: 'dog', birthday: '2021-04-01T00:00:00Z' },
    status: {
      ...(id !== undefined && { id }),
      conditions: [{ ...condition, lastTransitionTime: '2026-01-01T00:00:00Z' }],
    },
  };
}

const put = (...some: readonly Pet[]): void => {
  for (const each of some) pets.set(keyString(each.metadata), each);
};

const stored = (id: string, name: string): FoundPet => ({ id, name, type: 'dog', birthday: '2021-04-01' });

async function* all(...some: readonly (FoundPet | Error)[]): AsyncGenerator<FoundPet> {
  for (const each of some) {
    if (each instanceof Error) throw each;
    yield each;
  }
}

const namesOf = (keys: readonly ObjectKey[]) => keys.map(({ name }) => name).sort();

beforeEach(() => pets.clear());

describe('comparing the store with the Pets', () => {
  test('finds missing and changed pets by id, and ignores pets without a Pet', async () => {
    put(pet('same', '1'), pet('changed', '2'), pet('missing', '3'));
    const inventory = new Inventory(store);
    const keys = await inventory.compare(all(stored('1', 'same'), stored('2', 'other'), stored('9', 'missing')));
    expect(namesOf(keys)).toEqual(['changed', 'missing']);
    expect(['1', '2', '3', '9'].map((id) => inventory.deviation(id))).toEqual([
      undefined,
      'changed',
      'missing',
      undefined,
    ]);
    inventory.markCorrected('3');
    expect(inventory.deviation('3')).toBeUndefined();
  });

  test('omits Pets that are being deleted, have no id, or have a pending update', async () => {
    put(pet('leaving', '1', { leaving: true }), pet('new', undefined), pet('changing', '2', { generation: 2 }));
    const inventory = new Inventory(store);
    expect(await inventory.compare(all(stored('2', 'before')))).toEqual([]);
  });

  test('goes on after Pets of another shape, which were stored under an older definition', async () => {
    const withoutSpec = { ...pet('without-spec', '1'), spec: undefined } as unknown as Pet;
    const { status } = pet('number', '1');
    const withNumber = { ...pet('number', '1'), status: { ...status, id: 5 } } as unknown as Pet;
    put(withoutSpec, withNumber, pet('changed', '2'));
    expect(namesOf(await new Inventory(store).compare(all(stored('1', 'one'), stored('2', 'other'))))).toEqual([
      'changed',
    ]);
  });

  test('omits Pets that get their id meanwhile', async () => {
    const inventory = new Inventory(store);
    async function* slowly(): AsyncGenerator<FoundPet> {
      yield stored('9', 'nobody');
      put(pet('new', '1'));
    }
    expect(await inventory.compare(slowly())).toEqual([]);
    expect(inventory.deviation('1')).toBeUndefined();
  });

  test('omits Pets that are corrected meanwhile, because the search may return an earlier state', async () => {
    put(pet('renamed', '1'), pet('restored', '2'), pet('changed', '3'));
    const inventory = new Inventory(store);
    async function* slowly(): AsyncGenerator<FoundPet> {
      put({ ...pet('renamed', '1'), spec: { name: 'new name', type: 'dog', birthday: '2021-04-01T00:00:00Z' } });
      inventory.markCorrected('1');
      yield stored('1', 'renamed');
      yield stored('2', 'other');
      yield stored('3', 'other');
      inventory.markCorrected('2');
    }
    expect(namesOf(await inventory.compare(slowly()))).toEqual(['changed']);
    expect(['1', '2', '3'].map((id) => inventory.deviation(id))).toEqual([undefined, undefined, 'changed']);
    expect(namesOf(await inventory.compare(all(stored('1', 'new name'), stored('2', 'other'))))).toEqual([
      'changed',
      'restored',
    ]);
  });

  test('keeps the last deviations if the search fails', async () => {
    put(pet('missing', '1'), pet('other', '2'));
    const inventory = new Inventory(store);
    await inventory.compare(all(stored('2', 'other')));
    await expect(inventory.compare(all(stored('1', 'missing'), new Error('cut')))).rejects.toThrow('cut');
    expect([inventory.deviation('1'), inventory.deviation('2')]).toEqual(['missing', undefined]);
    await inventory.compare(all(stored('1', 'missing'), stored('2', 'other')));
    expect(inventory.deviation('1')).toBeUndefined();
  });
});

const key = { namespace: 'default', name: 'thor' };

/** Runs one until it has taken stock so often; how it went. */
async function run(times: number, take: (turn: number, sweep: Sweep) => readonly ObjectKey[], everyMs = 1) {
  const stop = new AbortController();
  const failures: unknown[] = [];
  const enqueued: ObjectKey[] = [];
  let turns = 0;
  const sweep: Sweep = new Sweep({
    search: async () => {
      turns += 1;
      if (turns === times) stop.abort();
      return take(turns, sweep);
    },
    everyMs,
    retryAfterMs: 1000,
    onError: (error) => failures.push(error),
  });
  const startedAtMs = performance.now();
  await sweep.run((each, { priority }) => priority === 'low' && enqueued.push(each), stop.signal);
  return { failures, enqueued, tookMs: performance.now() - startedAtMs };
}

test.each([
  ['Stored', false],
  ['InvalidSpec', false],
  ['PetStoreUnavailable', true],
  ['PetStoreFailed', true],
])('a Pet whose Ready has the reason %s waits for the store: %s', (reason, waits) => {
  const { status, ...rest } = pet('thor', '1');
  put({ ...rest, status: { ...status, conditions: status?.conditions?.map((each) => ({ ...each, reason })) } } as Pet);
  expect(new Inventory(store).hasWaitingPet()).toBe(waits);
});

describe('a sweep', () => {
  test('searches at once and periodically, and enqueues with low priority', async () => {
    const { enqueued, failures } = await run(3, () => [key]);
    expect(enqueued).toEqual([key, key, key]);
    expect(failures).toEqual([]);
  });

  test('reports a failure and continues', async () => {
    const { enqueued, failures } = await run(2, (turn) => {
      if (turn === 1) throw new Error('cut');
      return [key];
    });
    expect(failures).toEqual([new Error('cut')]);
    expect(enqueued).toEqual([key]);
  });

  test('runs early on request, also during a sweep, but not at once', async () => {
    const { tookMs } = await run(
      2,
      (turn, sweep) => {
        if (turn === 1) sweep.requestEarly();
        return [];
      },
      3_600_000,
    );
    expect(tookMs).toBeGreaterThan(900);
    expect(tookMs).toBeLessThan(30_000);
  });
});
