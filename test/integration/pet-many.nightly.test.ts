import { afterAll, beforeAll, test } from '@jest/globals';
import type { OperatorProcess } from '../../testkit/operator-process.ts';
import { PetStoreProcess } from '../../testkit/pet-store-process.ts';
import { expectManyPets } from './environment/many-pets.ts';
import { PetWorld } from './environment/pet-world.ts';

/** `PETS` is how many there are. */
const count = Number(process.env.PETS ?? 10_000);

let store: PetStoreProcess;
let world: PetWorld;
let operator: OperatorProcess;

beforeAll(async () => {
  store = await PetStoreProcess.start();
  world = await PetWorld.start(store.port);
  operator = await world.operator();
});

afterAll(async () => {
  await operator?.stop();
  await world?.[Symbol.asyncDispose]();
  await store?.stop();
});

test(
  `${count} Pets are as many pets, and none when they are deleted; each is added, changed and deleted once`,
  () => expectManyPets(world, count),
  360_000 + count * 400,
);
