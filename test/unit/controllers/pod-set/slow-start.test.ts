import { expect, test } from '@jest/globals';
import { slowStart } from '../../../../src/controllers/pod-set/slow-start.ts';

/** Counts, and fails from a time on; `together` is how many were under way at once. */
function work(failsFrom = Number.POSITIVE_INFINITY) {
  const counts = { tried: 0, underWay: 0, together: [] as number[] };
  const act = async (): Promise<void> => {
    const number = counts.tried++;
    counts.underWay += 1;
    await Promise.resolve();
    counts.together.push(counts.underWay);
    await Promise.resolve();
    counts.underWay -= 1;
    if (number >= failsFrom) throw new Error(`failed at ${number}`);
  };
  return { counts, act };
}

test('batches grow, and the last one is what is left', async () => {
  const { counts, act } = work();
  expect(await slowStart(10, act)).toEqual({ succeeded: 10 });
  expect(counts.together).toEqual([1, 2, 2, 4, 4, 4, 4, 3, 3, 3]);
});

test('the first error ends it after its batch, and is told', async () => {
  const { counts, act } = work(2);
  expect(await slowStart(500, act)).toEqual({ succeeded: 2, error: new Error('failed at 2') });
  expect(counts.tried).toBe(3);
});

test('a full quota is asked once', async () => {
  const { counts, act } = work(0);
  expect(await slowStart(500, act)).toEqual({ succeeded: 0, error: new Error('failed at 0') });
  expect(counts.tried).toBe(1);
});

test('nothing to do is done at once', async () => {
  const { counts, act } = work();
  expect(await slowStart(0, act)).toEqual({ succeeded: 0 });
  expect(counts.tried).toBe(0);
});
