/** Pet: a pet in the pet store, a service outside of what Kubernetes knows. */
import type { Registry } from 'prom-client';
import { Pet } from '../../api/index.ts';
import type { Gate } from '../../runtime/client/index.ts';
import { type Manager, predicates } from '../../runtime/index.ts';
import { type ControllerSettings, scopeOf } from '../controller-settings.ts';
import { Circuit, OutsideDownError, outsideUp } from '../outside/index.ts';
import { failureOf, outageOf } from './errors.ts';
import { Inventory, Sweep } from './inventory.ts';
import { PetReconciler } from './pet-reconciler.ts';
import { PetStore } from './pet-store.ts';

/** Workers at the least: twice the connections to the API server, to keep these busy while other workers wait for the store. */
const minWorkers = 64;

/** The pause after a sweep that failed, in milliseconds. */
const sweepAgainMs = 5000;

/**
 * Adds the Pet controller to a manager. Nothing is sent to the store yet. At each resync one search finds the pets that were
 * changed or deleted in the store.
 *
 * @returns closes the connection to the store. Call it when no reconcile runs any more.
 */
export function addPetController(
  manager: Manager,
  options: ControllerSettings & {
    /** Passed by each request to the store. Default: none. */
    readonly gate: Gate | undefined;
    /** For the metrics. */
    readonly registry: Registry;
    /** `host:port`. */
    readonly address: string;
    /** Absent: plain text. `ca`, in PEM, replaces the public authorities. */
    readonly tls: { readonly ca?: string } | undefined;
    /** How long the store may take to answer, in milliseconds. */
    readonly timeoutMs: number;
  },
): () => Promise<void> {
  const { events, gate, registry, address, tls, timeoutMs, resyncEveryMs, workers, namespaces } = options;
  const log = manager.log.child({ controller: 'pet' });
  const pets = manager.informer(Pet, scopeOf(options)).store;
  const system = `the pet store at ${address}`;
  const store = new PetStore({ address, tls, timeoutMs, gate });
  const inventory = new Inventory(pets);
  const showUp = outsideUp(registry, 'petstore');
  const circuit = new Circuit({
    system,
    reasonOf: outageOf,
    isAnswer: (error) => failureOf(error) !== undefined,
    log,
    onChange: (up) => {
      showUp(up);
      // No watch tells what happened in the store meanwhile.
      if (up) sweep.ask();
    },
  });
  const sweep = new Sweep({
    take: async (signal) => {
      // A search for all pets would be a long probe, and all other calls would wait for it.
      if (circuit.isCut) return [];
      return circuit.call((linked) => inventory.take(store.all(linked)), signal);
    },
    everyMs: resyncEveryMs,
    retryAfterMs: sweepAgainMs,
    failed: (error) => {
      if (error instanceof OutsideDownError) return;
      log.warn({ err: error }, 'the pets in the store cannot be read: what was changed there is not seen');
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
    // The status is written by this controller.
    predicate: predicates.generationChanged,
    workers: Math.max(workers, minWorkers),
    resyncEveryMs,
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
  return async () => store.close();
}
