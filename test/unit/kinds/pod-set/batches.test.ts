import { describe, expect, test } from '@jest/globals';
import { inFullBatches, slowStart } from '../../../../src/kinds/pod-set/batches.ts';

/** Counts, and fails for these numbers; `together` is how many were under way at once. */
function work(fails: (number: number) => boolean = () => false) {
  const counts = { tried: 0, underWay: 0, together: [] as number[] };
  const act = async (number: number): Promise<string> => {
    counts.tried += 1;
    counts.underWay += 1;
    await Promise.resolve();
    counts.together.push(counts.underWay);
    await Promise.resolve();
    counts.underWay -= 1;
    if (fails(number)) throw new Error(`failed at ${number}`);
    return `did ${number}`;
  };
  return { counts, act };
}

const numbers = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);

describe('slowStart', () => {
  test('sends batches that grow, and the rest in the last one', async () => {
    const { counts, act } = work();
    const { results, failures } = await slowStart(numbers(10), act);
    expect(results).toEqual(numbers(10).map((number) => `did ${number}`));
    expect(failures).toEqual([]);
    expect(counts.together).toEqual([1, 2, 2, 4, 4, 4, 4, 3, 3, 3]);
  });

  test('stops after the batch with the first error, and returns its item', async () => {
    const { counts, act } = work((number) => number >= 2);
    expect(await slowStart(numbers(500), act)).toEqual({
      results: ['did 0', 'did 1'],
      failures: [{ item: 2, error: new Error('failed at 2') }],
    });
    expect(counts.tried).toBe(3);
  });

  test('sends one request to a full quota', async () => {
    const { counts, act } = work(() => true);
    expect((await slowStart(numbers(500), act)).failures).toHaveLength(1);
    expect(counts.tried).toBe(1);
  });
});

describe('inFullBatches', () => {
  test('continues after failures', async () => {
    const { counts, act } = work((number) => number % 2 === 0);
    const { results, failures } = await inFullBatches(numbers(100), act);
    expect([results.length, failures.length, counts.tried]).toEqual([50, 50, 100]);
  });

  test('stops after the first batch in which all failed', async () => {
    const { counts, act } = work((number) => number >= 32);
    expect((await inFullBatches(numbers(500), act)).results).toHaveLength(32);
    expect(counts.tried).toBe(64);
  });
});

test.each([
  ['slowStart', slowStart],
  ['inFullBatches', inFullBatches],
])('%s has at most 32 requests in flight and none when it ends; without items it ends at once', async (_, act) => {
  const { counts, act: one } = work((number) => number === 499);
  await act(numbers(500), one);
  expect(Math.max(...counts.together)).toBe(32);
  expect(counts.underWay).toBe(0);
  expect(await act([], one)).toEqual({ results: [], failures: [] });
});
