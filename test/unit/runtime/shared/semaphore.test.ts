import { expect, test } from '@jest/globals';
import { Semaphore } from '../../../../packages/runtime/src/shared/semaphore.ts';

test('a semaphore limits concurrency and keeps the order, also after a failure', async () => {
  const semaphore = new Semaphore(2);
  const begun: number[] = [];
  const works = Array.from({ length: 5 }, () => Promise.withResolvers<number>());
  const uses = works.map(({ promise }, index) =>
    semaphore.use(() => {
      begun.push(index);
      return promise;
    }),
  );
  expect(begun).toEqual([0, 1]);
  works[1]?.reject(new Error('failed'));
  await expect(uses[1]).rejects.toThrow('failed');
  expect(begun).toEqual([0, 1, 2]);
  for (const [index, { resolve }] of works.entries()) resolve(index);
  expect(await Promise.all([uses[0], uses[2], uses[3], uses[4]])).toEqual([0, 2, 3, 4]);
  expect(begun).toEqual([0, 1, 2, 3, 4]);
  expect(await semaphore.use(async () => 'again')).toBe('again');
});
