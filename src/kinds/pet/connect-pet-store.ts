import type { ChannelTls } from '@echoperator/petstore/wire';
import type { SetUp } from '@echoperator/runtime/controller';
import { Circuit, ExternalSystemDownError } from '../../external/circuit.ts';
import { externalSystemUp } from '../../external/external-system-up.ts';
import { callMetrics } from './call-metrics.ts';
import { failureOf, outageOf } from './errors.ts';
import { Inventory, Sweep } from './inventory.ts';
import type { Pet } from './kind.ts';
import { PetStore } from './pet-store.ts';
import { PetWriter } from './pet-writer.ts';
import type { StorePet } from './store-pet.ts';

/** A search for this pet shows whether the store answers. */
const probe: StorePet = { name: 'echoperator-probe', type: 'dog', birthday: '2000-01-01' };

/** The pause after a failed sweep, in milliseconds. */
const sweepRetryMs = 5000;

/** How to reach the pet store. */
export interface PetStoreOptions {
  /** `host:port`. */
  readonly address: string;
  /** Absent: no TLS. */
  readonly tls: ChannelTls | undefined;
  /** How long the store may take to answer, in milliseconds. */
  readonly timeoutMs: number;
  /** At each resync, one search finds the pets that others have changed or deleted in the store. */
  readonly resyncEveryMs: number;
}

/** The pet store, as the reconciles use it. */
export interface ConnectedPetStore extends AsyncDisposable {
  readonly writer: PetWriter;
  readonly sweep: Sweep;
}

/** Sends nothing to the store yet. Dispose of the result after the last reconcile. */
export function connectPetStore(
  { store: pets, log: operatorLog, registry, gate, namespaces }: SetUp<Pet>,
  { address, tls, timeoutMs, resyncEveryMs }: PetStoreOptions,
): ConnectedPetStore {
  const log = operatorLog.child({ controller: 'pet' });
  const system = `the pet store at ${address}`;
  const store = new PetStore({ address, tls, timeoutMs, gate, interceptors: [callMetrics(registry)] });
  const inventory = new Inventory(pets);
  const circuit = new Circuit({
    system,
    reasonOf: outageOf,
    isResponse: (error) => failureOf(error) !== undefined,
    log,
    onChange: (up) => {
      // The store has no watch, so search for what has changed meanwhile.
      if (up) sweep.requestEarly();
    },
  });
  externalSystemUp(registry, 'petstore', { isDown: () => circuit.isOpen, isAwaited: () => inventory.hasWaitingPet() });
  const sweep = new Sweep({
    search: async (signal) => {
      if (circuit.isOpen) {
        // A Pet that waits probes the store with what it has to do: a search may succeed where an addition fails.
        if (inventory.hasWaitingPet()) return [];
        // Nobody else would notice that the store is back. A search for all pets would be a long probe.
        await circuit.call((linked) => store.find(probe, linked), signal);
      }
      return circuit.call((linked) => inventory.compare(store.all(linked)), signal);
    },
    everyMs: resyncEveryMs,
    retryAfterMs: sweepRetryMs,
    onError: (error) => {
      if (error instanceof ExternalSystemDownError) return;
      log.warn(
        { err: error },
        'cannot read the pets in the store: changes by others are not noticed until the next sweep',
      );
    },
  });
  const writer = new PetWriter({ store, circuit, inventory, namespaces });
  return { writer, sweep, [Symbol.asyncDispose]: async () => store.close() };
}
