import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { kinds } from '../../src/operator.ts';
import { createClient } from '../../src/runtime/client/index.ts';
import { SimulatedApiServer } from '../../src/runtime/testing/simulation/simulated-api-server.ts';
import { SimulatedNetwork } from '../../src/runtime/testing/simulation/simulated-network.ts';
import fc from '../../testkit/seeded-fast-check.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { isRefusal, notSimulated, RequestSender, randomRequests } from './environment/random-requests.ts';

const histories = 100;

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await TestCluster.connect();
});
afterAll(() => cluster?.close());

test(`responds to ${histories} random histories of requests as the API server does`, async () => {
  const namespace = await cluster.namespace();
  let [requests, skipped, unfinished] = [0, 0, 0];
  await fc.assert(
    fc.asyncProperty(randomRequests, async (history) => {
      const simulated = createClient(
        new SimulatedNetwork(new SimulatedApiServer({ kinds })).connect('user', { isImmediate: true }),
        { fieldManager: 'test' },
      );
      const [real, other] = [new RequestSender(cluster.client, namespace), new RequestSender(simulated, 'default')];
      try {
        for (const request of history) {
          requests += 1;
          const expected = await real.send(request);
          const response = await other.send(request);
          if (response !== notSimulated) expect(response).toEqual(expected);
          else if (isRefusal(expected)) skipped += 1;
          // From here on the two servers have other objects.
          else {
            unfinished += 1;
            return;
          }
        }
      } finally {
        await real.clear();
      }
    }),
    { numRuns: histories },
  );
  expect(unfinished).toBeLessThan(histories / 10);
  expect(skipped).toBeLessThan(requests / 10);
  console.log(
    `${histories} histories with ${requests} requests had equal responses, apart from ${skipped} refusals that are not simulated`,
  );
});
