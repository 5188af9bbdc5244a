import { expect, test } from '@jest/globals';
import { FairTurns } from '../../../../packages/petstore/src/server/fair-turns.ts';

const immediate = () => new Promise<void>((resolve) => setImmediate(resolve));

test('clients have turns in turn, each in the order of its requests', async () => {
  const turns = new FairTurns();
  const begun: string[] = [];
  const take = async (client: string, request: string): Promise<void> => {
    await turns.take(client);
    begun.push(request);
  };
  await Promise.all([
    take('a', 'a1'),
    take('a', 'a2'),
    take('a', 'a3'),
    take('b', 'b1'),
    take('c', 'c1'),
    take('b', 'b2'),
  ]);
  expect(begun).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  await take('a', 'a4');
  expect(begun).toHaveLength(7);
});

test('other work of the event loop happens between two turns', async () => {
  const turns = new FairTurns();
  let begun = 0;
  const all = Array.from({ length: 5 }, () => turns.take('a').then(() => (begun += 1)));
  await immediate();
  await immediate();
  expect(begun).toBeLessThan(5);
  await Promise.all(all);
});
