import { afterAll, beforeAll, test } from '@jest/globals';
import { expectAStatementEach, startManyWorld, timeLimitMs } from './environment/many-postgres-writers.ts';
import type { PostgresWorld } from './environment/postgres-world.ts';

/** `POSTGRES_WRITERS` is how many there are. */
const count = Number(process.env.POSTGRES_WRITERS ?? 10_000);

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
