/** Pet: a pet in the pet store, an external service. */
import type { Registry } from 'prom-client';
import { Pet } from '../../api/index.ts';
import type { ChannelTls } from '../../petstore-wire/index.ts';
import type { Gate } from '../../runtime/client/index.ts';
import { type Manager, predicates } from '../../runtime/index.ts';
import { type ControllerSettings, scopeOf } from '../controller-settings.ts';
import { Circuit, OutsideDownError, outsideUp } from '../outside/index.ts';
import { callMetrics } from './call-metrics.ts';
import { failureOf, outageOf } from './errors.ts';
import { Inventory, Sweep } from './inventory.ts';
import { PetReconciler } from './pet-reconciler.ts';
import { PetStore } from './pet-store.ts';
import type { StorePet } from './store-pet.ts';

/** The minimum of workers: twice the connections to the API server, to keep these busy while other workers wait for the store. */
const minWorkers = 64;

/** A search for this pet shows whether the store answers. */
const probe: StorePet = { name: 'echoperator-probe', type: 'dog', birthday: '2000-01-01' };

/** The pause after a failed sweep, in milliseconds. */
const sweepRetryMs = 5000;

/**
 * Adds the Pet controller to a manager. Sends nothing to the store yet. At each resync, one search finds the pets that others have
 * changed or deleted in the store.
 *
 * @returns a function that closes the connection to the store. Call it after the last reconcile.
 */
export function addPetController(
  manager: Manager,
  options: ControllerSettings & {
    /** The gate that each request to the store must pass. Default: none. */
    readonly gate: Gate | undefined;
    /** The registry of the metrics. */
    readonly registry: Registry;
    /** `host:port`. */
    readonly address: string;
    /** Absent: no TLS. */
    readonly tls: ChannelTls | undefined;
    /** How long the store may take to answer, in milliseconds. */
    readonly timeoutMs: number;
  },
): () => Promise<void> {
  const { events, gate, registry, address, tls, timeoutMs, resyncEveryMs, workers, namespaces } = options;
  const log = manager.log.child({ controller: 'pet' });
  const pets = manager.informer(Pet, scopeOf(options)).store;
  const system = `the pet store at ${address}`;
  const store = new PetStore({ address, tls, timeoutMs, gate, interceptors: [callMetrics(registry)] });
  const inventory = new Inventory(pets);
  const circuit = new Circuit({
    system,
    reasonOf: outageOf,
    isAnswer: (error) => failureOf(error) !== undefined,
    log,
    onChange: (up) => {
      // The store has no watch, so search for what has changed meanwhile.
      if (up) sweep.requestEarly();
    },
  });
  outsideUp(registry, 'petstore', { isDown: () => circuit.isOpen, isAwaited: () => inventory.hasWaitingPet() });
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
      if (error instanceof OutsideDownError) return;
      log.warn(
        { err: error },
        'cannot read the pets in the store: changes by others are not noticed until the next sweep',
      );
    },
  });
  const reconciler = new PetReconciler({
    pets,
    store,
    circuit,
    inventory,
    events,
    namespaces,
  });
  manager.controller(Pet, {
    sources: [(enqueue, signal) => sweep.run(enqueue, signal)],
    predicate: predicates.ignoringConditionMessages,
    workers: Math.max(workers, minWorkers),
    resyncEveryMs,
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
  return async () => store.close();
}
