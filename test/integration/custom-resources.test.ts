import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type ComparedServer, compareAtRandom, comparedServer } from './environment/custom-equality.ts';
import { OwnServer } from './environment/own-server.ts';

// The same objects each time; another seed tries others.
const seed = Number(process.env.CUSTOM_SEED ?? 1);

let server: OwnServer;
let compared: ComparedServer & Disposable;

beforeAll(async () => {
  server = await OwnServer.start();
  compared = await comparedServer(server.cluster.kubeconfig, server.cluster.client);
});

afterAll(async () => {
  compared?.[Symbol.dispose]();
  await server?.[Symbol.asyncDispose]();
});

test(`the simulation stores and refuses what the API server does, with the same causes: seed ${seed}`, async () => {
  const objects = Number(process.env.CUSTOM_OBJECTS ?? 4);
  const namespace = await server.cluster.namespace();
  const { outcomes, notSimulated } = await compareAtRandom(compared, namespace, { seed, objects, changes: 3 });
  console.log(`writes compared: ${JSON.stringify(outcomes)}, not simulated: ${notSimulated.length}`);
  const all = outcomes.stored + outcomes.refused;
  expect(all).toBeGreaterThan(objects * 50);
  expect(outcomes.refused).toBeGreaterThan(all / 12);
  expect(outcomes.ratcheted).toBeGreaterThan(all / 12);
  expect(notSimulated.length).toBeLessThan(all / 5);
});
