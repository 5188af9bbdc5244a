import { afterAll, afterEach, beforeAll, test } from '@jest/globals';
import { expectOutageSurvived, outages } from './environment/postgres-outage.ts';
import { PostgresWorld } from './environment/postgres-world.ts';

/**
 * `POSTGRES_OUTAGE_SECONDS` is for how long the database is away, `POSTGRES_OUTAGE_WRITERS` in the middle of how many
 * writes.
 */
const { POSTGRES_OUTAGE_SECONDS = '60', POSTGRES_OUTAGE_WRITERS = '1000' } = process.env;
const size = { seconds: Number(POSTGRES_OUTAGE_SECONDS), writers: Number(POSTGRES_OUTAGE_WRITERS) };

let world: PostgresWorld;

beforeAll(async () => {
  world = await PostgresWorld.start();
  await world.createTable('students');
});

afterEach(async () => {
  await world.stopOperator();
});

afterAll(async () => {
  await world?.[Symbol.asyncDispose]();
});

test.each(outages)(
  'an outage of the database by a %s during many writes loses and duplicates no row',
  (how) => expectOutageSurvived(world, how, size),
  180_000 + (size.seconds + size.writers / 10) * 1000,
);
