import { afterAll, beforeAll, test } from '@jest/globals';
import { convergesAndRests, setUp, spec, tearDown } from './environment/book-store-world.ts';

/** How many stand in one namespace. */
const many = Number(process.env.BOOKSTORES ?? 50);
const timeLimitMs = 60_000 + many * 1000;

beforeAll(() => setUp('book-store-many'));
afterAll(() => tearDown());

test(
  `${many} BookStores in a namespace converge; then neither a restart nor a resync sends a write`,
  () => convergesAndRests(many, spec()),
  4 * timeLimitMs,
);
