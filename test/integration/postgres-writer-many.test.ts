import { afterAll, beforeAll, test } from '@jest/globals';
import { expectFewStatements, startManyWorld, timeLimitMs } from './environment/many-postgres-writers.ts';
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
  `${count} PostgresWriters are made, changed and deleted in few statements, and rows = resources`,
  () => expectFewStatements(world, count),
  timeLimitMs(count) * 3,
);
