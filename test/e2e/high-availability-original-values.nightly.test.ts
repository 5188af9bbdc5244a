import { join } from 'node:path';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { Trials } from './environment/trials.ts';

jest.setTimeout(600_000);

/** As in the values file. */
const retryPeriodMs = 4_000;

let trials: Trials;

beforeAll(async () => {
  // The cluster cannot reach the registry of the file's image.
  const image = 'image.repository=ghcr.io/echoperator/echoperator,image.pullPolicy=IfNotPresent';
  const file = join(import.meta.dirname, '../../examples/values/original.yaml');
  trials = await Trials.begin({
    flags: ['--values', file, '--set', image],
    replicas: 5,
    fullName: 'echoes',
    metrics: { port: 9090, path: '/prometheus' },
  });
});

afterAll(() => trials?.end());

test("with the original chart's own values a leader whose pod is deleted hands over within a retry period", async () => {
  const { handovers } = await trials.run({
    name: 'original values, leader deleted',
    disturb: async (leader) => {
      await trials.deletePod(leader.pod);
      await trials.replicas.holderOtherThan(leader);
    },
  });
  expect(handovers).toHaveLength(1);
  expect(handovers[0]?.leaseMs).toBeLessThan(retryPeriodMs);
});
