import { beforeEach, describe, expect, test } from '@jest/globals';
import { Batch } from '../../../../src/controllers/outside/index.ts';

/** The items that were executed together. */
let batches: number[][];
/** Delays the end of each batch. */
let gate: Promise<void>;

beforeEach(() => {
  batches = [];
  gate = Promise.resolve();
});

const makeBatch = (
  execute: (items: readonly number[]) => Promise<readonly (string | Error)[]> = async (items) => {
    batches.push([...items]);
    await gate;
    return items.map((item) => `done ${item}`);
  },
) => new Batch<number, string>({ execute, maxItems: 3 });

describe('a batch', () => {
  test('is executed at once if no other runs', async () => {
    const batch = makeBatch();
    const first = batch.add(1);
    expect(batches).toEqual([[1]]);
    expect(await first).toBe('done 1');
    expect(await batch.add(2)).toBe('done 2');
    expect(batches).toEqual([[1], [2]]);
  });

  test('has the items that were added while another ran, at most maxItems', async () => {
    const batch = makeBatch();
    const opened = Promise.withResolvers<void>();
    gate = opened.promise;
    const items = [1, 2, 3, 4, 5, 6, 7].map((item) => batch.add(item));
    await new Promise(setImmediate);
    expect(batches).toEqual([[1]]);
    opened.resolve();
    expect(await Promise.all(items)).toEqual([1, 2, 3, 4, 5, 6, 7].map((item) => `done ${item}`));
    expect(batches).toEqual([[1], [2, 3, 4], [5, 6, 7]]);
  });

  test('has no limit by default', async () => {
    const execute = async (items: readonly number[]) => {
      batches.push([...items]);
      return items.map(String);
    };
    const batch = new Batch<number, string>({ execute });
    await Promise.all([1, 2, 3, 4, 5].map((item) => batch.add(item)));
    expect(batches).toEqual([[1], [2, 3, 4, 5]]);
  });

  test('gives each item its own result or error', async () => {
    const batch = makeBatch(async (items) => items.map((item) => (item === 2 ? new Error('not 2') : `done ${item}`)));
    const settled = Promise.allSettled([1, 2, 3].map((item) => batch.add(item)));
    expect(await settled).toMatchObject([{ value: 'done 1' }, { reason: { message: 'not 2' } }, { value: 'done 3' }]);
  });

  test('rejects an item for which there is no result', async () => {
    await expect(makeBatch(async () => []).add(1)).rejects.toThrow('no result');
  });

  test('that fails rejects all of its items, but not those of later batches', async () => {
    let calls = 0;
    const batch = makeBatch(async (items) => {
      calls += 1;
      if (calls === 2) throw new Error('down');
      return items.map(String);
    });
    const settled = Promise.allSettled([1, 2, 3, 4, 5].map((item) => batch.add(item)));
    expect((await settled).map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'rejected',
      'rejected',
      'fulfilled',
    ]);
    expect(await batch.add(6)).toBe('6');
  });
});
