import { expect, test } from '@jest/globals';
import { Rendezvous } from '../../../../src/controllers/postgres-writer/rendezvous.ts';

test('whoever may come is expected, but not while it waits itself', async () => {
  const rendezvous = new Rendezvous();
  const seen: boolean[] = [];
  let calls = 0;
  rendezvous.onNobody(() => (calls += 1));
  await rendezvous.during(async () => {
    seen.push(rendezvous.expectsMore);
    await rendezvous.waiting(async () => {
      seen.push(rendezvous.expectsMore);
      await Promise.resolve();
      seen.push(rendezvous.expectsMore);
    });
    seen.push(rendezvous.expectsMore);
  });
  // It is counted until its wait has begun.
  expect(seen).toEqual([true, true, false, true]);
  expect(rendezvous.expectsMore).toBe(false);
  expect(calls).toBe(2);
});

test('of several, the last one tells', async () => {
  const rendezvous = new Rendezvous();
  let calls = 0;
  rendezvous.onNobody(() => (calls += 1));
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<void>();
  const both = [rendezvous.during(() => first.promise), rendezvous.during(() => second.promise)];
  first.resolve();
  await both[0];
  expect(calls).toBe(0);
  second.reject(new Error('failed'));
  await expect(both[1]).rejects.toThrow('failed');
  expect(calls).toBe(1);
});
