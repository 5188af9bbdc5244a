import { afterAll, beforeAll, test } from '@jest/globals';
import { expectAStatementEach, startManyWorld, timeLimitMs } from './environment/many-postgres-writers.ts';
import type { PostgresWorld } from './environment/postgres-world.ts';

const count = 100;

let world: PostgresWorld;

beforeAll(async () => {
  world = await startManyWorld();
});

afterAll(async () => {
  await world?.[Symbol.asyncDispose]();
});

test(
  `${count} PostgresWriters are created, changed and deleted by a statement each`,
  () => expectAStatementEach(world, count),
  timeLimitMs(count) * 3,
);
