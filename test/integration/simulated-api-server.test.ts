import type { ApiServer } from '@echoperator/testing';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { compareHistories, startHistoryServer } from './environment/random-histories.ts';

const count = 100;

let server: ApiServer;
beforeAll(async () => {
  server = await startHistoryServer();
});
afterAll(() => server?.close());

// The same histories each time; simulated-api-server.nightly.test.ts tries others.
test(`responds to ${count} random histories of requests, and sends the events, as the API server does`, async () => {
  const { requests, skipped, unfinished, events } = await compareHistories(server, { seed: 1, count });
  expect(unfinished.length).toBeLessThan(count / 20);
  expect(skipped).toBeLessThan(requests / 20);
  expect(events).toBeGreaterThan(count / 4);
});
