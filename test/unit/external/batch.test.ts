import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { Batch, InFlightCount } from '../../../src/external/batch.ts';

let inFlight: InFlightCount;
/** What was done at once. */
let batches: number[][];
/** Holds up what is done. */
let gate: Promise<void>;

beforeEach(() => {
  jest.useFakeTimers();
  inFlight = new InFlightCount();
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
) => new Batch<number, string>({ execute, maxItems: 3, gather: { inFlight, maxWaitMs: 1000 } });

/** One that comes, and waits for its item. */
const come = (batch: Batch<number, string>, item: number): Promise<string> =>
  inFlight.during(() => inFlight.waiting(() => batch.add(item)));

describe('a batch', () => {
  test('is executed at once if no operation is in flight', async () => {
    expect(await come(makeBatch(), 1)).toBe('done 1');
    expect(batches).toEqual([[1]]);
  });

  test('waits for operations in flight', async () => {
    const batch = makeBatch();
    const arrival = Promise.withResolvers<void>();
    const late = inFlight.during(async () => {
      await arrival.promise;
      return inFlight.waiting(() => batch.add(2));
    });
    const early = come(batch, 1);
    expect(batches).toEqual([]);
    arrival.resolve();
    expect(await Promise.all([early, late])).toEqual(['done 1', 'done 2']);
    expect(batches).toEqual([[1, 2]]);
  });

  test('is executed when the operations in flight have ended without an item', async () => {
    const batch = makeBatch();
    const elsewhere = Promise.withResolvers<void>();
    const other = inFlight.during(() => elsewhere.promise);
    const item = come(batch, 1);
    elsewhere.resolve();
    await other;
    expect(await item).toBe('done 1');
  });

  test('is executed when its first item has waited for maxWaitMs', async () => {
    const batch = makeBatch();
    void inFlight.during(() => new Promise(() => {}));
    const item = come(batch, 1);
    await jest.advanceTimersByTimeAsync(999);
    expect(batches).toEqual([]);
    await jest.advanceTimersByTimeAsync(1);
    expect(await item).toBe('done 1');
  });

  test('has at most maxItems, and batches run one at a time', async () => {
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
    void inFlight.during(() => new Promise(() => {}));
    const settled = Promise.allSettled([1, 2, 3].map((item) => come(batch, item)));
    expect(await settled).toMatchObject([{ value: 'done 1' }, { reason: { message: 'not 2' } }, { value: 'done 3' }]);
  });

  test('that fails rejects all of its items, but not those of later batches', async () => {
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

test('without gather a batch is executed at once; items that are added meanwhile form the next one', async () => {
  const opened = Promise.withResolvers<void>();
  gate = opened.promise;
  const batch = new Batch<number, string>({
    execute: async (items) => {
      batches.push([...items]);
      await gate;
      return items.map(String);
    },
  });
  const items = [1, 2, 3, 4].map((item) => batch.add(item));
  expect(batches).toEqual([[1]]);
  opened.resolve();
  expect(await Promise.all(items)).toEqual(['1', '2', '3', '4']);
  expect(batches).toEqual([[1], [2, 3, 4]]);
});

test('operations in flight count, except while they wait for a batch', async () => {
  const inFlight = new InFlightCount();
  const seen: boolean[] = [];
  let calls = 0;
  inFlight.onZero(() => (calls += 1));
  await inFlight.during(async () => {
    seen.push(!inFlight.isZero);
    await inFlight.waiting(async () => {
      seen.push(!inFlight.isZero);
      await Promise.resolve();
      seen.push(!inFlight.isZero);
    });
    seen.push(!inFlight.isZero);
  });
  // Counted until the wait begins.
  expect(seen).toEqual([true, true, false, true]);
  expect(!inFlight.isZero).toBe(false);
  expect(calls).toBe(2);
});

test('the listeners are called when the last operation ends', async () => {
  const inFlight = new InFlightCount();
  let calls = 0;
  inFlight.onZero(() => (calls += 1));
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<void>();
  const both = [inFlight.during(() => first.promise), inFlight.during(() => second.promise)];
  first.resolve();
  await both[0];
  expect(calls).toBe(0);
  second.reject(new Error('failed'));
  await expect(both[1]).rejects.toThrow('failed');
  expect(calls).toBe(1);
});
