import { expect } from '@jest/globals';
import { Pet } from '../../../src/kinds/pet/kind.ts';
import type { OperatorProcess } from '../../../testkit/operator-process.ts';
import { PetStoreProcess } from '../../../testkit/pet-store-process.ts';
import { withReason } from '../../../testkit/with-reason.ts';
import { PetWorld } from './pet-world.ts';

/** Shared by the tests of Pets: a pet store, and the operator, which uses a proxy for it. */

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

/** Run this after each test, so that the next one starts without Pets, pets and faults. */
export async function removeAll(): Promise<void> {
  world.store.clear();
  if (!store.isRunning) await store.restart();
  await Promise.all((await world.resources()).map(({ metadata }) => world.remove(metadata.name)));
  expect(await world.settled()).toEqual([]);
}

/** Restarts the operator with other settings. */
export async function restartOperator(settings: Readonly<Record<string, string>> = {}): Promise<void> {
  await operator.stop();
  operator = await world.operator(settings);
}

export const thor = { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' } as const;

/** Waits until a Pet's condition Ready has the reason. */
export const ready = (name: string, reason: string) => withReason(world, Pet, world.key(name), reason);
