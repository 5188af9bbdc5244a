import { hostname } from 'node:os';
import {
  accept,
  integer,
  type LogLevel,
  logLevel,
  matching,
  oneOf,
  port,
  readEnvironment,
  seconds,
  text,
} from './environment.ts';

/** The operator's settings; each comes from an environment variable of its name in capitals (docs/operations.md). */
export interface Config {
  /** NAMESPACE: the operator's own. */
  readonly namespace: string;
  /** WATCH_NAMESPACES: those whose objects are reconciled. Absent: all. */
  readonly watchNamespaces: readonly string[] | undefined;
  /** CONTROLLERS: which of them run. */
  readonly controllers: readonly ControllerName[];
  /** NUM_WORKERS: how many objects of a kind are reconciled at once. */
  readonly numWorkers: number;
  /** RESYNC_SECONDS: how often each object is reconciled although nothing has happened. */
  readonly resyncSeconds: number;
  readonly ha: {
    /** HA_ENABLED */
    readonly enabled: boolean;
    /** HA_NODE_ID: who this replica is, in its Events and, with a uuid of the process, on the Lease. Default: the host's name. */
    readonly nodeId: string;
    /** HA_LEASE_LOCK_NAME */
    readonly leaseLockName: string;
    /** HA_LEASE_DURATION_SECONDS */
    readonly leaseDurationSeconds: number;
    /** HA_RENEW_DEADLINE_SECONDS */
    readonly renewDeadlineSeconds: number;
    /** HA_RETRY_PERIOD_SECONDS */
    readonly retryPeriodSeconds: number;
    /** HA_WARM_STANDBY: whether a replica that does not lead fills its caches. */
    readonly warmStandby: boolean;
  };
  /** The pod that the process runs in. Absent outside of one. */
  readonly pod: {
    /** POD_NAME */
    readonly name: string | undefined;
    /** POD_UID */
    readonly uid: string | undefined;
  };
  /** CONTAINER_NAME: of the container in that pod. Absent outside of one. */
  readonly containerName: string | undefined;
  readonly metrics: {
    /** METRICS_ENABLED */
    readonly enabled: boolean;
    /** METRICS_PATH */
    readonly path: string;
    /** METRICS_PORT */
    readonly port: number;
  };
  /** HEALTH_PORT: where /healthz and /readyz answer, always. */
  readonly healthPort: number;
  /** SHUTDOWN_TIMEOUT_SECONDS: how long reconciles under way may take to end after SIGTERM. */
  readonly shutdownTimeoutSeconds: number;
  /** ENV: the environment's name, in each log line. */
  readonly env: string;
  /** LOG_LEVEL */
  readonly logLevel: LogLevel;
  /** ECHO_IMAGE: the image whose printf prints an Echo's message. */
  readonly echoImage: string;
  /** POD_SET_IMAGE: the image of the pods of a PodSet without a template. */
  readonly podSetImage: string;
  /** The pet store that Pets are kept in. */
  readonly petstore: {
    /** PETSTORE_ADDRESS: `host:port`. */
    readonly address: string;
    /** PETSTORE_TLS: whether it is spoken to by TLS. */
    readonly tls: boolean;
    /** PETSTORE_CA_FILE: who has to have signed its certificate. Absent: the public authorities. */
    readonly caFile: string | undefined;
    /** PETSTORE_TIMEOUT_SECONDS: how long it may take to answer. */
    readonly timeoutSeconds: number;
  };
  /** The database of the PostgresWriters; its variables have the names that the original gave them. */
  readonly psql: {
    /** PSQL_HOST: needed where CONTROLLERS has postgresWriter. */
    readonly host: string | undefined;
    /** PSQL_PORT */
    readonly port: number;
    /** PSQL_DBNAME */
    readonly dbname: string;
    /** PSQL_USER: the role. Needed there too, unless PSQL_CREDENTIALS_DIR has it. */
    readonly user: string | undefined;
    /** PSQL_PASSWORD */
    readonly password: string | undefined;
    /** PSQL_CREDENTIALS_DIR: a folder with files PSQL_USER and PSQL_PASSWORD, which go before the variables. */
    readonly credentialsDir: string | undefined;
    /** PSQL_SSLMODE */
    readonly sslmode: SslMode;
    /** PSQL_SSLROOTCERT: the file of the authorities that sslmode verify-full trusts. */
    readonly sslrootcert: string | undefined;
    /** PSQL_POOL_SIZE: connections at the most. */
    readonly poolSize: number;
    /** PSQL_TABLES: the only ones that may be written to. Absent: every one. */
    readonly tables: readonly string[] | undefined;
    /** PSQL_CONNECT_TIMEOUT_SECONDS */
    readonly connectTimeoutSeconds: number;
    /** PSQL_STATEMENT_TIMEOUT_SECONDS */
    readonly statementTimeoutSeconds: number;
  };
  /** KUBECONFIG: absent in a pod, which has its service account. */
  readonly kubeconfig: string | undefined;
}

/** The operator's controllers, as CONTROLLERS and the chart's values call them. */
export const controllerNames = ['echo', 'scheduledEcho', 'podSet', 'bookStore', 'pet', 'postgresWriter'] as const;
export type ControllerName = (typeof controllerNames)[number];

/** Those that do nothing before they are told where what they write to is. */
const namesOffByDefault: readonly ControllerName[] = ['pet', 'postgresWriter'];
const namesByDefault = controllerNames.filter((name) => !namesOffByDefault.includes(name));

const sslModes = ['disable', 'require', 'verify-full'] as const;
export type SslMode = (typeof sslModes)[number];

/** The environment holds values that the operator can't take. The message has one line for each. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

const booleans: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['1', true],
  ['false', false],
  ['0', false],
]);
const boolean = accept('true or false', (text) => booleans.get(text.toLowerCase()));

const labelPattern = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const dnsLabel = matching('a DNS label: lower-case letters, digits and "-", 63 at most', labelPattern);
const takesLabels = 'DNS labels with commas between them, each once';
/** One that is there twice is most likely a slip for another. */
const dnsLabels = accept<readonly string[]>(takesLabels, (text) => {
  const labels = text.split(',').map((label) => label.trim());
  if (!labels.every((label) => labelPattern.test(label))) return undefined;
  const twice = labels.find((label, index) => labels.indexOf(label) < index);
  if (twice !== undefined) throw new TypeError(`${takesLabels}: "${twice}" is there twice`);
  return labels;
});
const takesControllers = `some of ${controllerNames.join(', ')}, with commas between them, each once`;
const controllerList = accept<readonly ControllerName[]>(takesControllers, (text) => {
  const words = text.split(',').map((word) => word.trim());
  const names = controllerNames.filter((name) => words.includes(name));
  return names.length === words.length ? names : undefined;
});
const dnsSubdomain = matching(
  'a DNS subdomain: DNS labels with "." between them, 253 characters at most',
  /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$/,
);
const path = matching('a path that begins with "/"', /^\/[\w\-./]*$/);
const host = matching('a host name, an IP address, or the folder of a Unix socket', /^[\w.:/-]+$/);
const takesTables = 'tables with their schemas, as public.students, with commas between them';
/** A part with a dot or a comma in it stands in double quotes. */
const tablePart = '(?:"(?:[^"]|"")+"|[^".,][^.,]*)';
const tables = accept<readonly string[]>(takesTables, (text) => {
  const name = new RegExp(String.raw`\s*(${tablePart}\.${tablePart})\s*(,|$)`, 'y');
  const names: string[] = [];
  for (let end = ','; end === ','; ) {
    const [, found, after = ''] = name.exec(text) ?? [];
    if (found === undefined) return undefined;
    names.push(found.trim());
    end = after;
  }
  return names;
});
const sslMode = oneOf(sslModes);
const image = matching('an image reference, as busybox:1.36', /^[\w][\w.\-/:@]*$/);
const address = matching('a host and a port, as petstore.example:6742', /^(\[[0-9A-Fa-f:.]+\]|[\w.-]+):\d{1,5}$/);

/**
 * Reads the settings. An empty variable counts as absent: a ConfigMap can't unset one.
 *
 * @throws ConfigError with a line for each bad value: the variable, what it got, what it takes.
 */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const values = readEnvironment(
    environment,
    {
      NAMESPACE: dnsLabel({ default: 'default' }),
      WATCH_NAMESPACES: dnsLabels({ default: undefined }),
      CONTROLLERS: controllerList({ default: namesByDefault }),
      NUM_WORKERS: integer(1, 1000)({ default: 4 }),
      RESYNC_SECONDS: seconds({ default: 600 }),
      HA_ENABLED: boolean({ default: false }),
      HA_NODE_ID: text({ default: hostname() }),
      HA_LEASE_LOCK_NAME: dnsSubdomain({ default: 'echoperator' }),
      HA_LEASE_DURATION_SECONDS: seconds({ default: 15 }),
      HA_RENEW_DEADLINE_SECONDS: seconds({ default: 10 }),
      HA_RETRY_PERIOD_SECONDS: seconds({ default: 2 }),
      HA_WARM_STANDBY: boolean({ default: false }),
      POD_NAME: dnsSubdomain({ default: undefined }),
      POD_UID: text({ default: undefined }),
      CONTAINER_NAME: dnsLabel({ default: undefined }),
      METRICS_ENABLED: boolean({ default: true }),
      METRICS_PATH: path({ default: '/metrics' }),
      METRICS_PORT: port({ default: 2112 }),
      HEALTH_PORT: port({ default: 8081 }),
      SHUTDOWN_TIMEOUT_SECONDS: seconds({ default: 20 }),
      ENV: text({ default: 'local' }),
      LOG_LEVEL: logLevel({ default: 'debug' }),
      ECHO_IMAGE: image({ default: 'busybox:1.36' }),
      POD_SET_IMAGE: image({ default: 'busybox:1.36' }),
      PETSTORE_ADDRESS: address({ default: 'petstore-service.petstore.svc.cluster.local:6742' }),
      PETSTORE_TLS: boolean({ default: false }),
      PETSTORE_CA_FILE: text({ default: undefined }),
      PETSTORE_TIMEOUT_SECONDS: seconds({ default: 10 }),
      PSQL_HOST: host({ default: undefined }),
      PSQL_PORT: port({ default: 5432 }),
      PSQL_DBNAME: text({ default: 'postgres' }),
      PSQL_USER: text({ default: undefined }),
      PSQL_PASSWORD: text({ default: undefined }),
      PSQL_CREDENTIALS_DIR: text({ default: undefined }),
      PSQL_SSLMODE: sslMode({ default: 'verify-full' }),
      PSQL_SSLROOTCERT: text({ default: undefined }),
      PSQL_POOL_SIZE: integer(1, 100)({ default: 4 }),
      PSQL_TABLES: tables({ default: undefined }),
      PSQL_CONNECT_TIMEOUT_SECONDS: seconds({ default: 5 }),
      PSQL_STATEMENT_TIMEOUT_SECONDS: seconds({ default: 5 }),
      KUBECONFIG: text({ default: undefined }),
    },
    ConfigError,
  );
  if (values.METRICS_ENABLED && values.METRICS_PORT === values.HEALTH_PORT) {
    throw new ConfigError(
      `METRICS_PORT: got ${values.METRICS_PORT}, takes a port other than HEALTH_PORT's ${values.HEALTH_PORT}`,
    );
  }
  if (values.CONTROLLERS.includes('postgresWriter')) needDatabase(values);
  return {
    namespace: values.NAMESPACE,
    watchNamespaces: values.WATCH_NAMESPACES,
    controllers: values.CONTROLLERS,
    numWorkers: values.NUM_WORKERS,
    resyncSeconds: values.RESYNC_SECONDS,
    ha: {
      enabled: values.HA_ENABLED,
      nodeId: values.HA_NODE_ID,
      leaseLockName: values.HA_LEASE_LOCK_NAME,
      leaseDurationSeconds: values.HA_LEASE_DURATION_SECONDS,
      renewDeadlineSeconds: values.HA_RENEW_DEADLINE_SECONDS,
      retryPeriodSeconds: values.HA_RETRY_PERIOD_SECONDS,
      warmStandby: values.HA_WARM_STANDBY,
    },
    pod: { name: values.POD_NAME, uid: values.POD_UID },
    containerName: values.CONTAINER_NAME,
    metrics: { enabled: values.METRICS_ENABLED, path: values.METRICS_PATH, port: values.METRICS_PORT },
    healthPort: values.HEALTH_PORT,
    shutdownTimeoutSeconds: values.SHUTDOWN_TIMEOUT_SECONDS,
    env: values.ENV,
    logLevel: values.LOG_LEVEL,
    echoImage: values.ECHO_IMAGE,
    podSetImage: values.POD_SET_IMAGE,
    petstore: {
      address: values.PETSTORE_ADDRESS,
      tls: values.PETSTORE_TLS,
      caFile: values.PETSTORE_CA_FILE,
      timeoutSeconds: values.PETSTORE_TIMEOUT_SECONDS,
    },
    psql: {
      host: values.PSQL_HOST,
      port: values.PSQL_PORT,
      dbname: values.PSQL_DBNAME,
      user: values.PSQL_USER,
      password: values.PSQL_PASSWORD,
      credentialsDir: values.PSQL_CREDENTIALS_DIR,
      sslmode: values.PSQL_SSLMODE,
      sslrootcert: values.PSQL_SSLROOTCERT,
      poolSize: values.PSQL_POOL_SIZE,
      tables: values.PSQL_TABLES,
      connectTimeoutSeconds: values.PSQL_CONNECT_TIMEOUT_SECONDS,
      statementTimeoutSeconds: values.PSQL_STATEMENT_TIMEOUT_SECONDS,
    },
    kubeconfig: values.KUBECONFIG,
  };
}

/** @throws ConfigError unless there is a database to write to, and a role to do so as. */
function needDatabase(values: {
  readonly PSQL_HOST: string | undefined;
  readonly PSQL_USER: string | undefined;
  readonly PSQL_CREDENTIALS_DIR: string | undefined;
}): void {
  const why = 'since CONTROLLERS has postgresWriter';
  const lines: string[] = [];
  if (values.PSQL_HOST === undefined) lines.push(`PSQL_HOST: got nothing, takes the host of the database, ${why}`);
  if (values.PSQL_USER === undefined && values.PSQL_CREDENTIALS_DIR === undefined) {
    lines.push(`PSQL_USER: got nothing, takes the role in the database, ${why}; or set PSQL_CREDENTIALS_DIR`);
  }
  if (lines.length > 0) throw new ConfigError(lines.join('\n'));
}
