import { join } from 'node:path';
import { RemotePets } from '../../packages/petstore/src/server/remote-pets.ts';
import { PetStoreProcess } from '../../testkit/pet-store-process.ts';
import { bundlePrograms } from '../../testkit/shipped-program.ts';
import { TurnError } from '../running-operator.ts';
import type { External } from './external.ts';

/** Starts the project's pet store, which writes each pet to the disk before it responds. */
export async function startPetStore(count: number, folder: string): Promise<External> {
  const store = await PetStoreProcess.start({}, folder, await bundlePrograms(join(folder, 'programs')));
  return {
    environment: { CONTROLLERS: 'pet', PETSTORE_ADDRESS: store.address },
    during: (work) => work(),
    figures: async () => {
      using pets = new RemotePets({ address: store.address, timeoutMs: 60_000 });
      let stored = 0;
      for await (const _ of pets.list({ names: [], types: [] })) stored += 1;
      if (stored !== count) throw new TurnError(`${stored} pets for ${count} Pets`);
      return {};
    },
    [Symbol.asyncDispose]: async () => {
      await store.stop();
    },
  };
}
