import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { Batch } from '../../../../src/controllers/postgres-writer/batch.ts';
import { Rendezvous } from '../../../../src/controllers/postgres-writer/rendezvous.ts';

let rendezvous: Rendezvous;
/** What was done at once. */
let batches: number[][];
/** Holds up what is done. */
let gate: Promise<void>;

beforeEach(() => {
  jest.useFakeTimers();
  rendezvous = new Rendezvous();
  batches = [];
  gate = Promise.resolve();
});
afterEach(() => {
  jest.useRealTimers();
});

const makeBatch = (
  execute: (items: readonly number[]) => Promise<readonly (string | Error)[]> = async (items) => {
    batches.push([...items]);
    await gate;
    return items.map((item) => `done ${item}`);
  },
) => new Batch<number, string>({ execute, rendezvous, maxItems: 3, maxWaitMs: 1000 });

/** One that comes, and waits for its item. */
const come = (batch: Batch<number, string>, item: number): Promise<string> =>
  rendezvous.during(() => rendezvous.waiting(() => batch.add(item)));

describe('a batch', () => {
  test('goes at once with its only item where nobody else is on the way', async () => {
    expect(await come(makeBatch(), 1)).toBe('done 1');
    expect(batches).toEqual([[1]]);
  });

  test('waits for those on the way', async () => {
    const batch = makeBatch();
    const arrival = Promise.withResolvers<void>();
    const late = rendezvous.during(async () => {
      await arrival.promise;
      return rendezvous.waiting(() => batch.add(2));
    });
    const early = come(batch, 1);
    expect(batches).toEqual([]);
    arrival.resolve();
    expect(await Promise.all([early, late])).toEqual(['done 1', 'done 2']);
    expect(batches).toEqual([[1, 2]]);
  });

  test('goes when those on the way have gone elsewhere', async () => {
    const batch = makeBatch();
    const elsewhere = Promise.withResolvers<void>();
    const other = rendezvous.during(() => elsewhere.promise);
    const item = come(batch, 1);
    elsewhere.resolve();
    await other;
    expect(await item).toBe('done 1');
  });

  test('goes when its first item has waited long enough', async () => {
    const batch = makeBatch();
    void rendezvous.during(() => new Promise(() => {}));
    const item = come(batch, 1);
    await jest.advanceTimersByTimeAsync(999);
    expect(batches).toEqual([]);
    await jest.advanceTimersByTimeAsync(1);
    expect(await item).toBe('done 1');
  });

  test('is never larger than it may be, and one goes after the other', async () => {
    const batch = makeBatch();
    const opened = Promise.withResolvers<void>();
    gate = opened.promise;
    const items = [1, 2, 3, 4, 5, 6, 7].map((item) => come(batch, item));
    await jest.advanceTimersByTimeAsync(10_000);
    expect(batches).toEqual([[1]]);
    opened.resolve();
    await Promise.all(items);
    expect(batches).toEqual([[1], [2, 3, 4], [5, 6, 7]]);
  });

  test('gives each item its own result or error', async () => {
    const batch = makeBatch(async (items) => items.map((item) => (item === 2 ? new Error('not 2') : `done ${item}`)));
    void rendezvous.during(() => new Promise(() => {}));
    const settled = Promise.allSettled([1, 2, 3].map((item) => come(batch, item)));
    expect(await settled).toMatchObject([{ value: 'done 1' }, { reason: { message: 'not 2' } }, { value: 'done 3' }]);
  });

  test('that fails fails for all of its items, and for no later one', async () => {
    let calls = 0;
    const batch = makeBatch(async (items) => {
      calls += 1;
      if (calls === 1) throw new Error('down');
      return items.map(String);
    });
    await expect(come(batch, 1)).rejects.toThrow('down');
    expect(await come(batch, 2)).toBe('2');
  });
});
