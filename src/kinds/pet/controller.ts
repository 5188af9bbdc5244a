/** Pet: a pet in the pet store, an external service. */

import { defineController } from '@echoperator/runtime';
import type { PetStoreOptions } from './connect-pet-store.ts';
import { Pet, petFinalizer } from './kind.ts';
import { petReasons } from './reasons.ts';

/**
 * The minimum of workers: twice the connections to the API server, to keep these busy while other workers wait for the
 * store.
 */
const minWorkers = 64;

/** Options of {@link petController}. */
export interface PetOptions extends PetStoreOptions {
  /** How many objects are reconciled concurrently, at least. */
  readonly workers: number;
}

/** Keeps one pet in the store for each Pet, with the values of its spec: see `PetWriter`. */
export const petController = ({ workers, ...store }: PetOptions) =>
  defineController(Pet, {
    reasons: petReasons,
    workers: Math.max(workers, minWorkers),
    resyncEveryMs: store.resyncEveryMs,
    setUp: async (operator) => {
      // gRPC costs memory, and this module is loaded even if the controller is switched off.
      const { connectPetStore } = await import('./connect-pet-store.ts');
      return connectPetStore(operator, store);
    },
    sources: ({ sweep }) => [(enqueue, signal) => sweep.run(enqueue, signal)],
    reconcile: (_, context) => context.state.writer.apply(context),
    failed: (error, pet, { state }) => state.writer.failureOutcome(pet, error),
    finalizer: { name: petFinalizer, cleanUp: (_, context) => context.state.writer.cleanUp(context) },
  });
