import type { DefinedController } from '@echoperator/runtime/controller';
import { bookStoreController } from './kinds/book-store/controller.ts';
import { echoController } from './kinds/echo/controller.ts';
import { type PetOptions, petController } from './kinds/pet/controller.ts';
import { podSetController } from './kinds/pod-set/controller.ts';
import type { DefaultPodSettings } from './kinds/pod-set/pod.ts';
import { type PostgresWriterOptions, postgresWriterController } from './kinds/postgres-writer/controller.ts';
import { scheduledEchoController } from './kinds/scheduled-echo/controller.ts';
import type { PodDefaults } from './kinds/shared/pod-defaults.ts';
import type { PrintPodSettings } from './kinds/shared/print-pod.ts';

export { reservedSettingsLabels } from './kinds/shared/pod-metadata.ts';

/** The operator's settings that the controllers get. */
export interface KindSettings {
  /** For Echo and ScheduledEcho. */
  readonly printPod: PrintPodSettings;
  readonly podSet: DefaultPodSettings;
  readonly bookStore: PodDefaults;
  /** Reads files, so call it only if the controller is enabled. */
  readonly pet: () => PetOptions;
  readonly postgresWriter: PostgresWriterOptions;
}

/** A kind of the operator. */
interface KindEntry {
  /** Creates the controller. Its kind, reasons, permissions and finalizer must not depend on the settings. */
  readonly controller: (settings: KindSettings) => DefinedController;
  /**
   * Default: false, for a kind that needs an external system, or that creates arbitrary pods, which is nearly the power
   * of a cluster administrator.
   */
  readonly runsByDefault?: boolean;
  /**
   * True if the kind has effects outside the cluster. Then the chart does not let the users of a namespace create its
   * objects, unless `rbac.aggregate` says so. Default: false.
   */
  readonly hasExternalEffects?: boolean;
}

/**
 * Every kind of the operator, by the name of its controller in CONTROLLERS and in the chart's values: the name of the
 * kind with a lower-case first letter. Every other list of kinds is derived from this list. The controllers load large
 * packages (gRPC, pg) only when they start.
 */
const entries = {
  echo: {
    controller: ({ printPod }) => echoController(printPod),
    runsByDefault: true,
  },
  scheduledEcho: {
    controller: ({ printPod }) => scheduledEchoController(printPod),
    runsByDefault: true,
  },
  podSet: { controller: ({ podSet }) => podSetController(podSet) },
  bookStore: { controller: ({ bookStore }) => bookStoreController(bookStore) },
  pet: { controller: ({ pet }) => petController(pet()), hasExternalEffects: true },
  postgresWriter: {
    controller: ({ postgresWriter }) => postgresWriterController(postgresWriter),
    hasExternalEffects: true,
  },
} satisfies Readonly<Record<string, KindEntry>>;

export type ControllerName = keyof typeof entries;

export const kindEntries: Readonly<Record<ControllerName, KindEntry>> = entries;

export const controllerNames = Object.keys(entries) as readonly ControllerName[];
