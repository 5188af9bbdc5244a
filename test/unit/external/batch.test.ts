import { beforeEach, expect, test } from '@jest/globals';
import { Batch } from '../../../src/external/batch.ts';

/** The items of each call. */
let batches: number[][];

beforeEach(() => {
  batches = [];
});

test('a batch is executed at once; items that are added meanwhile form the next one', async () => {
  const opened = Promise.withResolvers<void>();
  const batch = new Batch<number, string>(async (items) => {
    batches.push([...items]);
    await opened.promise;
    return items.map(String);
  });
  const items = [1, 2, 3, 4].map((item) => batch.add(item));
  expect(batches).toEqual([[1]]);
  opened.resolve();
  expect(await Promise.all(items)).toEqual(['1', '2', '3', '4']);
  expect(batches).toEqual([[1], [2, 3, 4]]);
  expect(await batch.add(5)).toBe('5');
});

test('a batch that fails rejects all of its items, but not those of later batches', async () => {
  const batch = new Batch<number, string>(async (items) => {
    batches.push([...items]);
    if (batches.length === 2) throw new Error('down');
    return items.map(String);
  });
  const settled = Promise.allSettled([1, 2, 3].map((item) => batch.add(item)));
  expect(await settled).toMatchObject([
    { value: '1' },
    { reason: { message: 'down' } },
    { reason: { message: 'down' } },
  ]);
  expect(await batch.add(4)).toBe('4');
  expect(batches).toEqual([[1], [2, 3], [4]]);
});
