import { expect } from '@jest/globals';
import { Pet } from '../../../src/api/index.ts';
import type { OperatorProcess } from '../../../testkit/operator-process.ts';
import { PetStoreProcess } from '../../../testkit/pet-store-process.ts';
import { withReason } from '../../../testkit/with-reason.ts';
import { PetWorld } from './pet-world.ts';

/** What the tests of Pets share: a pet store, and the operator with a proxy before it. */

export let store: PetStoreProcess;
export let world: PetWorld;
export let operator: OperatorProcess;

export async function setUp(): Promise<void> {
  store = await PetStoreProcess.start();
  world = await PetWorld.start(store.port);
  operator = await world.operator();
}

export async function tearDown(): Promise<void> {
  await operator?.stop();
  await world?.[Symbol.asyncDispose]();
  await store?.stop();
}

/** After each test: each begins with no Pets, no pets, and everything up. */
export async function removeAll(): Promise<void> {
  world.store.clear();
  if (!store.isRunning) await store.restart();
  await Promise.all((await world.resources()).map(({ metadata }) => world.remove(metadata.name)));
  expect(await world.settled()).toEqual([]);
}

/** Stops the operator, and starts one with these settings. */
export async function restartOperator(settings: Readonly<Record<string, string>> = {}): Promise<void> {
  await operator.stop();
  operator = await world.operator(settings);
}

export const thor = { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' } as const;

/** Waits until the condition Ready of a Pet has the reason. */
export const ready = (name: string, reason: string) => withReason(world, Pet, world.key(name), reason);
