import { readFileSync } from 'node:fs';
import type { CustomKind, KubeObject, Operator } from '@echoperator/runtime';
import { type ControllerHost, cache, type DefinedController } from '@echoperator/runtime/controller';
import { CronJob, PersistentVolumeClaim, Pod } from '@echoperator/runtime/kinds';
import { type Config, ConfigError, type JsonObject, readConfig } from './config.ts';
import { keepReadFields as keepReadClaimFields } from './kinds/book-store/claims.ts';
import type { PetOptions } from './kinds/pet/controller.ts';
import { keepChildrenOf } from './kinds/shared/cached-fields.ts';
import { addDisabledController } from './kinds/shared/disabled-controller.ts';
import type { PodDefaults } from './kinds/shared/pod-defaults.ts';
import { keepReadFields } from './kinds/shared/pods.ts';
import type { PrintPodSettings } from './kinds/shared/print-pod.ts';
import { type ControllerName, controllerNames, type KindSettings, kindEntries } from './kinds.ts';

export { controllerDisabled } from './kinds/shared/disabled-controller.ts';

/** The parts of the operator that controllers use. */
type OperatorParts = Pick<Operator, 'manager' | 'events' | 'applier' | 'metrics'> & Pick<ControllerHost, 'elector'>;

/** One of the operator's controllers. If it is off, {@link addDisabledController} replaces it. */
export interface OperatorController
  extends Pick<DefinedController, 'kind' | 'children' | 'reasons' | 'permissions' | 'finalizer'> {
  add(operator: OperatorParts, config: Config): void;
}

function operatorController(name: ControllerName): OperatorController {
  const define = (config: Config): DefinedController => kindEntries[name].controller(settingsOf(config));
  const { kind, children, reasons, permissions, finalizer } = define(readConfig({}));
  return {
    ...{ kind, children, reasons, permissions, finalizer },
    add: (operator, config) => {
      define(config).add(operator, { ...sharedOptions(config), caches: cachesFor(config) });
    },
  };
}

/** All controllers. */
export const controllers = Object.fromEntries(
  controllerNames.map((name) => [name, operatorController(name)]),
) as Readonly<Record<ControllerName, OperatorController>>;

/** Every kind of the operator, in the order in which the CRDs are applied. */
export const kinds: readonly CustomKind[] = Object.values(controllers).map(({ kind }) => kind);

/**
 * The kinds with a finalizer, by API group. A deleted object stays until the operator has removed the parts that the
 * garbage collector does not remove.
 */
export const kindsWithFinalizer: readonly { readonly kind: CustomKind; readonly finalizer: string }[] = Object.values(
  controllers,
)
  .flatMap(({ kind, finalizer }) => (finalizer === undefined ? [] : [{ kind, finalizer }]))
  .sort((one, other) => one.kind.group.localeCompare(other.kind.group));

const children = new Set(Object.values(controllers).flatMap((controller) => controller.children));

/**
 * The caches of kinds whose objects others may also create. They drop fields that no controller reads. All controllers
 * share these caches. Of a child that none of our kinds controls, the cache keeps only the identity.
 */
export const caches = [
  cache(Pod, { transform: keepReadFields }),
  cache(PersistentVolumeClaim, { transform: keepReadClaimFields }),
  ...[...children]
    .filter((child) => child !== Pod)
    .map((child) => cache<KubeObject>(child, { transform: keepChildrenOf(...kinds) })),
];

/**
 * Makes the cache of CronJobs optional if only Echos need it. An older role, which lacks the right to list CronJobs,
 * must not stop the operator. Until the operator has the right, Echos are not protected from CronJobs of their names.
 */
function cachesFor({ controllers: enabled }: Config): typeof caches {
  if (enabled.includes('scheduledEcho')) return caches;
  return caches.map((each) => (each.kind === CronJob ? cache(CronJob, { ...each.options, optional: true }) : each));
}

// These are function declarations, because the definitions above call them while this module is loaded.
function settingsOf(config: Config): KindSettings {
  const pods = podDefaults(config);
  const { host = '', tables: allowedTables, ...database } = config.psql;
  const { workers, resyncEveryMs } = sharedOptions(config);
  return {
    printPod: printPodSettings(config),
    podSet: { image: config.podSetImage, podDefaults: pods },
    bookStore: bookStorePodDefaults(config),
    pet: () => petOptions(config),
    postgresWriter: { settings: { host, ...database }, allowedTables, workers, resyncEveryMs },
  };
}

function petOptions(config: Config): PetOptions {
  const { address, tls, caFile, certFile, keyFile, timeoutSeconds } = config.petstore;
  const { workers, resyncEveryMs } = sharedOptions(config);
  const files = {
    ca: ['PETSTORE_CA_FILE', caFile],
    cert: ['PETSTORE_CERT_FILE', certFile],
    key: ['PETSTORE_KEY_FILE', keyFile],
  } as const;
  return {
    address,
    tls: tls ? readTlsFiles(files) : undefined,
    timeoutMs: timeoutSeconds * 1000,
    workers,
    resyncEveryMs,
  };
}

/** The settings of the pods that print. */
export function printPodSettings(config: Config): PrintPodSettings {
  return { image: config.echoImage, resources: config.echoResources, podDefaults: podDefaults(config) };
}

/** The defaults of a BookStore's pods. */
export function bookStorePodDefaults(config: Config): PodDefaults {
  return podDefaults(config, config.bookStore.podSecurityContext, config.bookStore.containerSecurityContext);
}

/** The defaults of the pods of the other kinds. */
export function podDefaults(
  { childPod }: Config,
  securityContext: JsonObject = childPod.securityContext,
  containerSecurityContext: JsonObject = childPod.containerSecurityContext,
): PodDefaults {
  const { labels, annotations, imagePullSecrets, nodeSelector, tolerations, affinity, priorityClassName } = childPod;
  const spec = {
    ...(imagePullSecrets && { imagePullSecrets: imagePullSecrets.map((name) => ({ name })) }),
    ...(isPresent(nodeSelector) && { nodeSelector }),
    ...(tolerations !== undefined && tolerations.length > 0 && { tolerations }),
    ...(isPresent(affinity) && { affinity }),
    ...(priorityClassName !== undefined && { priorityClassName }),
    ...(isPresent(securityContext) && { securityContext }),
  };
  const container = isPresent(containerSecurityContext) ? { securityContext: containerSecurityContext } : {};
  // The API server validates the rest of these settings.
  return {
    metadata: { ...(labels && { labels }), ...(annotations && { annotations }) },
    spec: spec as PodDefaults['spec'],
    container: container as PodDefaults['container'],
  };
}

function isPresent<T extends JsonObject>(object: T | undefined): object is T {
  return object !== undefined && Object.keys(object).length > 0;
}

/** The options that all controllers have. */
function sharedOptions({ numWorkers: workers, watchNamespaces: namespaces, resyncSeconds }: Config) {
  return { workers, namespaces, resyncEveryMs: resyncSeconds * 1000 };
}

type TlsFile = 'ca' | 'cert' | 'key';

/** A setting and the path that it names. */
type FileSetting = readonly [setting: string, path: string | undefined];

/**
 * The contents of files in PEM. Each property reads its file at each access, because a certificate may be renewed.
 *
 * @throws ConfigError if a file is empty or cannot be read now.
 */
function readTlsFiles(files: Readonly<Record<TlsFile, FileSetting>>): Readonly<Record<TlsFile, string | undefined>> {
  const read = ([setting, path]: FileSetting): string | undefined => {
    if (path === undefined) return undefined;
    const takes = (what: string, cause?: unknown): ConfigError =>
      new ConfigError(`${setting}: got ${JSON.stringify(path)}, takes ${what}`, { cause });
    let content: string;
    try {
      content = readFileSync(path, 'utf8');
    } catch (cause) {
      throw takes(`a file that can be read: ${String(cause)}`, cause);
    }
    // With an empty CA file, Node would trust the public CAs.
    if (content.trim() === '') throw takes('a file that is not empty');
    return content;
  };
  Object.values(files).forEach(read);
  return {
    get ca() {
      return read(files.ca);
    },
    get cert() {
      return read(files.cert);
    },
    get key() {
      return read(files.key);
    },
  };
}

/**
 * The names of the kinds whose controllers are disabled, each with the setting of the chart that enables its
 * controller.
 */
export const disabledKinds = (config: Pick<Config, 'controllers'>): ReadonlyMap<string, string> =>
  new Map(
    controllerNames
      .filter((name) => !config.controllers.includes(name))
      .map((name) => [controllers[name].kind.kind, settingOf(name)]),
  );

const settingOf = (name: ControllerName): string => `controllers.${name}.enabled`;

/** Adds the enabled controllers, and the replacements of disabled ones. */
export function addControllers(operator: OperatorParts, config: Config): void {
  const { manager, events } = operator;
  for (const name of controllerNames) {
    const controller = controllers[name];
    if (config.controllers.includes(name)) {
      controller.add(operator, config);
      continue;
    }
    const { kind, finalizer } = controller;
    const setting = settingOf(name);
    addDisabledController(manager, kind, { events, namespaces: config.watchNamespaces, setting, finalizer });
  }
}
