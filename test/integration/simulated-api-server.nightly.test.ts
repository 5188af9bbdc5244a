import type { ApiServer } from '@echoperator/testing';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { compareHistories, startHistoryServer } from './environment/random-histories.ts';

// A failure prints the variables that repeat it.
const { HISTORIES_SEED, HISTORIES = 2_000 } = process.env;
const count = Number(HISTORIES);

let server: ApiServer;
beforeAll(async () => {
  server = await startHistoryServer();
});
afterAll(() => server?.close());

test(`responds to ${count} other random histories as the API server does`, async () => {
  const { requests, skipped, unfinished, events } = await compareHistories(server, {
    seed: Number(HISTORIES_SEED ?? jest.getSeed()),
    count,
  });
  expect(unfinished.length).toBeLessThan(count / 20);
  expect(skipped).toBeLessThan(requests / 20);
  expect(events).toBeGreaterThan(count / 4);
}, 1_800_000);
