import { readFileSync } from 'node:fs';
import { BookStore, Echo, ScheduledEcho } from './api/index.ts';
import {
  type Config,
  ConfigError,
  type ControllerName,
  controllerNames,
  type JsonObject,
  readConfig,
} from './config.ts';
import { keepReadFields as keepReadClaimFields } from './controllers/book-store/claims.ts';
import { bookStoreController } from './controllers/book-store/index.ts';
import { keepChildrenOf } from './controllers/cached-fields.ts';
import { echoController } from './controllers/echo/index.ts';
import { addDisabledController, type PodDefaults } from './controllers/index.ts';
import { petController } from './controllers/pet/index.ts';
import { podSetController } from './controllers/pod-set/index.ts';
import { keepReadFields } from './controllers/pods.ts';
import { postgresWriterController } from './controllers/postgres-writer/index.ts';
import { scheduledEchoController } from './controllers/scheduled-echo/index.ts';
import { cache, type DefinedController } from './runtime/controller/index.ts';
import type { KubeObject, Operator } from './runtime/index.ts';
import { CronJob, Deployment, Job, PersistentVolumeClaim, Pod, Service, StatefulSet } from './runtime/kinds/index.ts';

export { controllerDisabled } from './controllers/index.ts';

/** The parts of the operator that controllers use. */
type OperatorParts = Pick<Operator, 'manager' | 'events' | 'applier' | 'elector' | 'metrics'>;

/** One of the operator's controllers. If it is off, {@link addDisabledController} replaces it. */
export interface OperatorController extends Pick<DefinedController, 'kind' | 'permissions' | 'finalizer'> {
  add(operator: OperatorParts, config: Config): void;
}

/** What the caches keep of the objects that others may have created. All controllers share them. */
export const caches = [
  cache(Pod, { transform: keepReadFields }),
  cache(Job, { transform: keepChildrenOf(Echo) }),
  cache(CronJob, { transform: keepChildrenOf(ScheduledEcho) }),
  ...[Deployment, StatefulSet, Service].map((kind) =>
    cache<KubeObject>(kind, { transform: keepChildrenOf(BookStore) }),
  ),
  cache(PersistentVolumeClaim, { transform: keepReadClaimFields }),
];

/** A controller that depends on the settings. Its kind, its permissions and its finalizer do not. */
function defined(define: (config: Config) => DefinedController): OperatorController {
  const { kind, permissions, finalizer } = define(readConfig({}));
  return {
    kind,
    permissions,
    finalizer,
    add: (operator, config) => {
      define(config).add(operator, { ...sharedOptions(config), caches });
    },
  };
}

/** All controllers. What costs memory (gRPC, pg) is imported when one starts to work. */
export const controllers: Readonly<Record<ControllerName, OperatorController>> = {
  echo: defined((config) => echoController({ image: config.echoImage, podDefaults: podDefaults(config) })),
  scheduledEcho: defined((config) =>
    scheduledEchoController({ image: config.echoImage, podDefaults: podDefaults(config) }),
  ),
  podSet: defined((config) => podSetController({ image: config.podSetImage, podDefaults: podDefaults(config) })),
  bookStore: defined((config) => bookStoreController(bookStorePodDefaults(config))),
  pet: defined((config) => {
    const { address, tls, caFile, certFile, keyFile, timeoutSeconds } = config.petstore;
    const { numWorkers: workers, resyncSeconds } = config;
    return petController({
      address,
      tls: tls
        ? readTlsFiles({
            ca: ['PETSTORE_CA_FILE', caFile],
            cert: ['PETSTORE_CERT_FILE', certFile],
            key: ['PETSTORE_KEY_FILE', keyFile],
          })
        : undefined,
      timeoutMs: timeoutSeconds * 1000,
      workers,
      resyncEveryMs: resyncSeconds * 1000,
    });
  }),
  postgresWriter: defined((config) => {
    const { host = '', tables, ...settings } = config.psql;
    const { numWorkers: workers, resyncSeconds } = config;
    return postgresWriterController({
      settings: { host, ...settings },
      allowedTables: tables,
      workers,
      resyncEveryMs: resyncSeconds * 1000,
    });
  }),
};

// Function declarations: the definitions above call them while this module is loaded.
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
  const { imagePullSecrets, nodeSelector, tolerations, affinity, priorityClassName } = childPod;
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
  return { spec: spec as PodDefaults['spec'], container: container as PodDefaults['container'] };
}

function isPresent<T extends JsonObject>(object: T | undefined): object is T {
  return object !== undefined && Object.keys(object).length > 0;
}

/** The options that all controllers have. */
const sharedOptions = ({ numWorkers: workers, watchNamespaces: namespaces, resyncSeconds }: Config) => ({
  workers,
  namespaces,
  resyncEveryMs: resyncSeconds * 1000,
});

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
    // With an empty authority, Node would trust the public ones.
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

/** The names of the kinds whose controllers are disabled, each with the setting of the chart that enables its controller. */
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
