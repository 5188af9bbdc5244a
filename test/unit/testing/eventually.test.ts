import { AssertionError } from 'node:assert';
import { eventually } from '@echoperator/testing';
import { expect, test } from '@jest/globals';

test('retries after an error, which is the cause of the error after the timeout', async () => {
  let looks = 0;
  const look = async () => {
    looks += 1;
    if (looks < 3) throw new Error('refused');
    return looks;
  };
  expect(await eventually('the third look', look)).toBe(3);
  const cause = new Error('refused');
  await expect(eventually('nothing', () => Promise.reject(cause), 50)).rejects.toMatchObject({
    message: 'not within 50 ms: nothing',
    cause,
  });
});

test('does not wait for a poll that hangs after the timeout', async () => {
  await expect(eventually('an answer', () => new Promise<true>(() => {}), 50)).rejects.toMatchObject({
    message: 'not within 50 ms: an answer',
    cause: { message: 'the last poll did not end' },
  });
});

test.each([
  ['of a matcher', async () => expect(1).toBe(2)],
  ['of a promise that should have been rejected', () => expect(Promise.resolve(1)).rejects.toThrow()],
  ['of node:assert', () => Promise.reject(new AssertionError({ message: 'wrong' }))],
])('throws an assertion error %s at once', async (_, assertion) => {
  let looks = 0;
  const look = async () => {
    looks += 1;
    if (looks === 1) await assertion();
    return true;
  };
  const failure = await eventually('a right state', look).then(
    () => undefined,
    (error: unknown) => error,
  );
  // Not toBeInstanceOf: node:assert is of another realm than the test.
  expect(failure).toBeDefined();
  expect(String(failure)).not.toContain('not within');
  expect(looks).toBe(1);
});
