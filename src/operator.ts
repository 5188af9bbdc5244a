import { readFileSync } from 'node:fs';
import { Pet, PostgresWriter } from './api/index.ts';
import { type Config, ConfigError, type ControllerName, controllerNames } from './config.ts';
import {
  addDisabledController,
  bookStorePermissions,
  disabledPermissions,
  echoPermissions,
  type PolicyRule,
  petPermissions,
  podSetPermissions,
  postgresWriterPermissions,
  scheduledEchoPermissions,
} from './controllers/index.ts';
import type { Operator } from './runtime/index.ts';

/** What controllers are given of the operator. */
type Parts = Pick<Operator, 'manager' | 'events' | 'applier' | 'elector' | 'metrics'>;

/** Closes what a controller has open outside of the cluster. To be called when nothing is reconciled any more. */
type Close = () => Promise<void>;

/** One of the operator's controllers. */
export interface OperatorController {
  /** What its role has to allow. */
  readonly permissions: readonly PolicyRule[];
  add(operator: Parts, config: Config): Promise<Close | undefined>;
  /** What takes its place where it does not run. Absent: nothing, and the kind is not watched. */
  readonly disabled?: Pick<OperatorController, 'permissions'> & { add(operator: Parts, config: Config): void };
}

/** All of them. Each is loaded on demand: an operator does without the code of those that do not run, a gRPC client for example. */
export const controllers: Readonly<Record<ControllerName, OperatorController>> = {
  echo: {
    permissions: echoPermissions,
    add: async ({ manager, events }, config) => {
      const { addEchoController } = await import('./controllers/echo/index.ts');
      addEchoController(manager, { events, image: config.echoImage, ...shared(config) });
      return undefined;
    },
  },
  scheduledEcho: {
    permissions: scheduledEchoPermissions,
    add: async ({ manager, events, applier }, config) => {
      const { addScheduledEchoController } = await import('./controllers/scheduled-echo/index.ts');
      addScheduledEchoController(manager, { events, applier, image: config.echoImage, ...shared(config) });
      return undefined;
    },
  },
  podSet: {
    permissions: podSetPermissions,
    add: async ({ manager, events, applier }, config) => {
      const { addPodSetController } = await import('./controllers/pod-set/index.ts');
      addPodSetController(manager, { events, applier, image: config.podSetImage, ...shared(config) });
      return undefined;
    },
  },
  bookStore: {
    permissions: bookStorePermissions,
    add: async ({ manager, events, applier }, config) => {
      const { addBookStoreController } = await import('./controllers/book-store/index.ts');
      addBookStoreController(manager, { events, applier, ...shared(config) });
      return undefined;
    },
  },
  pet: {
    permissions: petPermissions,
    add: async ({ manager, events, elector, metrics }, config) => {
      const { addPetController } = await import('./controllers/pet/index.ts');
      const { address, tls, caFile, timeoutSeconds } = config.petstore;
      return addPetController(manager, {
        events,
        gate: elector?.fence,
        registry: metrics.registry,
        address,
        tls: tls ? authorityIn('PETSTORE_CA_FILE', caFile) : undefined,
        timeoutMs: timeoutSeconds * 1000,
        ...shared(config),
      });
    },
    disabled: {
      permissions: disabledPermissions(Pet),
      add: ({ manager, events }, { watchNamespaces: namespaces }) => {
        addDisabledController(manager, Pet, { events, setting: 'controllers.pet.enabled', namespaces });
      },
    },
  },
  postgresWriter: {
    permissions: postgresWriterPermissions,
    add: async ({ manager, events, elector, metrics }, config) => {
      const { addPostgresWriterController } = await import('./controllers/postgres-writer/index.ts');
      const { host, tables, ...settings } = config.psql;
      if (host === undefined) throw new ConfigError('PSQL_HOST: got nothing, takes the host of the database');
      return addPostgresWriterController(manager, {
        settings: { host, ...settings },
        allowedTables: tables,
        gate: elector?.fence,
        events,
        registry: metrics.registry,
        ...shared(config),
      });
    },
    disabled: {
      permissions: disabledPermissions(PostgresWriter),
      add: ({ manager, events }, { watchNamespaces: namespaces }) => {
        addDisabledController(manager, PostgresWriter, {
          events,
          setting: 'controllers.postgresWriter.enabled',
          namespaces,
        });
      },
    },
  },
};

const shared = ({ numWorkers: workers, watchNamespaces: namespaces, resyncSeconds }: Config) => ({
  workers,
  namespaces,
  resyncEveryMs: resyncSeconds * 1000,
});

/**
 * The authority in a file, read anew each time it is got: it may be renewed.
 *
 * @throws ConfigError where the file cannot be read now.
 */
function authorityIn(setting: string, path: string | undefined): { readonly ca?: string } {
  if (path === undefined) return {};
  const authority = {
    get ca() {
      return readFileSync(path, 'utf8');
    },
  };
  try {
    void authority.ca;
    return authority;
  } catch (cause) {
    throw new ConfigError(`${setting}: got ${JSON.stringify(path)}, takes a file that can be read: ${String(cause)}`, {
      cause,
    });
  }
}

/** Adds the controllers that the config asks for. */
export async function addControllers(operator: Parts, config: Config): Promise<Close> {
  const closes: Close[] = [];
  for (const name of controllerNames) {
    const { add, disabled } = controllers[name];
    const close = config.controllers.includes(name) ? await add(operator, config) : undefined;
    if (close !== undefined) closes.push(close);
    if (!config.controllers.includes(name)) disabled?.add(operator, config);
  }
  return async () => {
    await Promise.all(closes.map((close) => close()));
  };
}
