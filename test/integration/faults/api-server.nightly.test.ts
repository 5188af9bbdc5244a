import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { Echo } from '../../../src/kinds/echo/kind.ts';
import {
  client,
  heapBefore,
  namespace,
  server,
  setUp,
  startSubject,
  stopSubject,
  tearDown,
  world,
} from './environment/own-api-server.ts';

beforeAll(() => setUp());
afterAll(() => tearDown());
afterEach(() => stopSubject());

/** A consistent list, of as little as possible. */
async function resourceVersion(): Promise<number> {
  const { metadata } = await client.list(Echo, { namespace, limit: 1 });
  return Number(metadata.resourceVersion);
}

test('an informer recovers if etcd is restored and its resourceVersion stays below the old one', async () => {
  const running = await startSubject();
  await server.stop();
  const backup = await server.backUp();
  await server.restart();
  // So much that the server that was set back does not get there in this test.
  for (let round = 0; round < 20; round += 1) await world.change();
  await world.converge(running);
  const last = await resourceVersion();

  await server.stop();
  await server.restore(backup);
  await server.restart();
  expect(await resourceVersion()).toBeLessThan(last);
  // The restore removed later writes, so they need not be reconciled.
  world.forget();
  await world.converge(running);
  await world.change();
  await world.converge(running);
  expect(await resourceVersion()).toBeLessThan(last);
  await world.heapIsAsBefore(running, heapBefore);
});
