import { hostname } from 'node:os';
import {
  accept,
  integer,
  json,
  type LogLevel,
  logLevel,
  matching,
  oneOf,
  port,
  readEnvironment,
  seconds,
  text,
} from '@echoperator/settings';
import { type ControllerName, controllerNames, kindEntries, reservedSettingsLabels } from './kinds.ts';

/** The operator's settings. Each is read from the named environment variable; docs/operations.md lists them. */
export interface Config {
  /** NAMESPACE: the operator's own namespace. */
  readonly namespace: string;
  /** SCOPE_CHECK: whether to wait while another operator watches the same namespaces. */
  readonly scopeCheck: boolean;
  /** WATCH_NAMESPACES: the namespaces whose objects are reconciled. Absent: all. */
  readonly watchNamespaces: readonly string[] | undefined;
  /** CONTROLLERS: the enabled controllers. */
  readonly controllers: readonly ControllerName[];
  /** NUM_WORKERS: the number of concurrent reconciles of each controller. */
  readonly numWorkers: number;
  /** RESYNC_SECONDS: the time between two reconciles of an object that does not change. */
  readonly resyncSeconds: number;
  readonly ha: {
    /** HA_ENABLED */
    readonly enabled: boolean;
    /**
     * HA_NODE_ID: identifies this replica in its Events and, followed by a uuid, on the Lease. Default: the host's
     * name.
     */
    readonly nodeId: string;
    /** HA_LEASE_LOCK_NAME */
    readonly leaseLockName: string;
    /** HA_LEASE_DURATION_SECONDS */
    readonly leaseDurationSeconds: number;
    /** HA_RENEW_DEADLINE_SECONDS */
    readonly renewDeadlineSeconds: number;
    /** HA_RETRY_PERIOD_SECONDS */
    readonly retryPeriodSeconds: number;
    /** HA_WARM_STANDBY: whether a standby fills its caches. */
    readonly warmStandby: boolean;
  };
  /** The pod that the process runs in. Absent outside a pod. */
  readonly pod: {
    /** POD_NAME */
    readonly name: string | undefined;
    /** POD_UID */
    readonly uid: string | undefined;
  };
  /** CONTAINER_NAME: the container that the process runs in. Absent outside a pod. */
  readonly containerName: string | undefined;
  readonly metrics: {
    /** METRICS_ENABLED */
    readonly enabled: boolean;
    /** METRICS_PATH */
    readonly path: string;
    /** METRICS_PORT */
    readonly port: number;
  };
  /** HEALTH_PORT: the port of /healthz and /readyz, which are always served. */
  readonly healthPort: number;
  /** EXPLAIN_DIR: the folder of the socket that `explain` connects to. Absent: nothing is recorded. */
  readonly explainDir: string | undefined;
  /** SHUTDOWN_TIMEOUT_SECONDS: how long reconciles in flight may take after SIGTERM. */
  readonly shutdownTimeoutSeconds: number;
  /** ENV: the name of the environment, which each log line contains. */
  readonly env: string;
  /** LOG_LEVEL */
  readonly logLevel: LogLevel;
  /** ECHO_IMAGE: the image of the pods that print messages. It needs printf. */
  readonly echoImage: string;
  /** ECHO_RESOURCES: the requests and limits of these pods. */
  readonly echoResources: Resources;
  /** POD_SET_IMAGE: the image of the pods of a PodSet without a template. */
  readonly podSetImage: string;
  /** Settings of the pods that the operator creates, except those of a PodSet's template. */
  readonly childPod: {
    /** CHILD_POD_LABELS */
    readonly labels: Texts | undefined;
    /** CHILD_POD_ANNOTATIONS */
    readonly annotations: Texts | undefined;
    /** CHILD_POD_IMAGE_PULL_SECRETS: the names of Secrets in the namespaces of the pods. */
    readonly imagePullSecrets: readonly string[] | undefined;
    /** CHILD_POD_NODE_SELECTOR */
    readonly nodeSelector: Texts | undefined;
    /** CHILD_POD_TOLERATIONS */
    readonly tolerations: readonly JsonObject[] | undefined;
    /** CHILD_POD_AFFINITY */
    readonly affinity: JsonObject | undefined;
    /** CHILD_POD_PRIORITY_CLASS_NAME */
    readonly priorityClassName: string | undefined;
    /** CHILD_POD_SECURITY_CONTEXT: not for BookStores. An empty object means none. */
    readonly securityContext: JsonObject;
    /** CHILD_POD_CONTAINER_SECURITY_CONTEXT: not for BookStores. An empty object means none. */
    readonly containerSecurityContext: JsonObject;
  };
  /** Settings of the pods of BookStores, unless the spec overrides them. */
  readonly bookStore: {
    /** BOOK_STORE_POD_SECURITY_CONTEXT: an empty object means none. */
    readonly podSecurityContext: JsonObject;
    /** BOOK_STORE_CONTAINER_SECURITY_CONTEXT: an empty object means none. */
    readonly containerSecurityContext: JsonObject;
  };
  /** The pet store that stores the Pets. */
  readonly petstore: {
    /** PETSTORE_ADDRESS: `host:port`. */
    readonly address: string;
    /** PETSTORE_TLS: whether the connection uses TLS. */
    readonly tls: boolean;
    /**
     * PETSTORE_CA_FILE: the file of the authorities that may sign the server's certificate. Absent: the public ones.
     */
    readonly caFile: string | undefined;
    /** PETSTORE_CERT_FILE: the file of the certificate that the operator presents. Absent: none. */
    readonly certFile: string | undefined;
    /** PETSTORE_KEY_FILE: the file of its key. */
    readonly keyFile: string | undefined;
    /** PETSTORE_TIMEOUT_SECONDS: the timeout of a request. */
    readonly timeoutSeconds: number;
  };
  /** The database of the PostgresWriters. The variables keep their names from the original operator. */
  readonly psql: {
    /** PSQL_HOST: required if CONTROLLERS includes postgresWriter. */
    readonly host: string | undefined;
    /** PSQL_PORT */
    readonly port: number;
    /** PSQL_DBNAME */
    readonly dbname: string;
    /** PSQL_USER: the role. Required too, unless PSQL_CREDENTIALS_DIR is set. */
    readonly user: string | undefined;
    /** PSQL_PASSWORD */
    readonly password: string | undefined;
    /** PSQL_CREDENTIALS_DIR: a folder with files PSQL_USER and PSQL_PASSWORD, which override the variables. */
    readonly credentialsDir: string | undefined;
    /** PSQL_SSLMODE */
    readonly sslmode: SslMode;
    /** PSQL_SSLROOTCERT: the file of the authorities that sslmode verify-full trusts. */
    readonly sslrootcert: string | undefined;
    /** PSQL_POOL_SIZE: the maximum number of connections. */
    readonly poolSize: number;
    /** PSQL_TABLES: the tables that the operator may write to. Absent: all. */
    readonly tables: readonly string[] | undefined;
    /** PSQL_CONNECT_TIMEOUT_SECONDS */
    readonly connectTimeoutSeconds: number;
    /** PSQL_STATEMENT_TIMEOUT_SECONDS */
    readonly statementTimeoutSeconds: number;
  };
  /** HELM_RELEASE: the release that `check-uninstall` names in its commands. Absent: unknown. */
  readonly helmRelease: string | undefined;
  /** KUBECONFIG: absent in a pod, which uses its service account. */
  readonly kubeconfig: string | undefined;
}

/** An object of Kubernetes' API. Only the API server knows its fields. */
export type JsonObject = Readonly<Record<string, unknown>>;

type Texts = Readonly<Record<string, string>>;

/** The resources of a container. The API server validates the quantities. */
interface Resources {
  readonly requests?: Readonly<Record<string, string | number>>;
  readonly limits?: Readonly<Record<string, string | number>>;
}

const controllersByDefault = controllerNames.filter((name) => kindEntries[name].runsByDefault);

const sslModes = ['disable', 'require', 'verify-full'] as const;
type SslMode = (typeof sslModes)[number];

/** Environment variables have invalid values. The message has one line for each. */
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

const subdomainPattern = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$/;
const labelPattern = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const dnsLabel = matching('a DNS label: lower-case letters, digits and "-", 63 at most', labelPattern);
const takesLabels = 'DNS labels with commas between them, each once';
/** A repeated label is rejected, because it is probably a typing error for another label. */
const dnsLabels = accept<readonly string[]>(takesLabels, (text) => {
  const labels = text.split(',').map((label) => label.trim());
  if (!labels.every((label) => labelPattern.test(label))) return undefined;
  const twice = labels.find((label, index) => labels.indexOf(label) < index);
  if (twice !== undefined) throw new TypeError(`${takesLabels}: "${twice}" appears twice`);
  return labels;
});
const takesNames = 'DNS subdomains with commas between them';
const dnsSubdomains = accept<readonly string[]>(takesNames, (text) => {
  const names = text.split(',').map((name) => name.trim());
  return names.every((name) => subdomainPattern.test(name)) ? names : undefined;
});
const takesControllers = `some of ${controllerNames.join(', ')}, with commas between them, each once`;
const controllerList = accept<readonly ControllerName[]>(takesControllers, (text) => {
  const words = text.split(',').map((word) => word.trim());
  const names = controllerNames.filter((name) => words.includes(name));
  return names.length === words.length ? names : undefined;
});
const dnsSubdomain = matching(
  'a DNS subdomain: DNS labels with "." between them, 253 characters at most',
  subdomainPattern,
);
const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const jsonObject = json('a JSON object, as {"runAsNonRoot":true}', isJsonObject);
const jsonObjects = json(
  'a list of JSON objects, as [{"key":"dedicated","operator":"Exists"}]',
  (value): value is readonly JsonObject[] => Array.isArray(value) && value.every(isJsonObject),
);
const isTexts = (value: unknown): value is Texts =>
  isJsonObject(value) && Object.values(value).every((text) => typeof text === 'string');
const jsonLabels = json('a JSON object of texts, as {"kubernetes.io/os":"linux"}', isTexts);
const takesPodLabels = 'a JSON object of texts, without the labels by which the operator or Kubernetes finds pods';
const podLabels = json(takesPodLabels, (value): value is Texts => {
  if (!isTexts(value)) return false;
  const reserved = reservedSettingsLabels.find((label) => Object.hasOwn(value, label));
  if (reserved !== undefined) throw new TypeError(`${takesPodLabels}: "${reserved}" is one`);
  return true;
});
const isQuantities = (value: unknown): boolean =>
  isJsonObject(value) && Object.values(value).every((each) => ['string', 'number'].includes(typeof each));
const resources = json(
  'requests and limits, as {"requests":{"cpu":"10m"},"limits":{"memory":"64Mi"}}',
  (value): value is Resources =>
    isJsonObject(value) &&
    Object.entries(value).every(([name, each]) => ['requests', 'limits'].includes(name) && isQuantities(each)),
);
const path = matching('a path that begins with "/"', /^\/[\w\-./]*$/);
const host = matching('a host name, an IP address, or the folder of a Unix socket', /^[\w.:/-]+$/);
const takesTables = 'tables with their schemas, as public.students, with commas between them';
/** A schema or table name. A name that contains a dot or a comma is double-quoted. */
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

/** A security context of a pod that fits the Pod Security Standard `restricted`. */
const restrictedPod = (user: number): JsonObject => ({
  runAsNonRoot: true,
  runAsUser: user,
  runAsGroup: user,
  seccompProfile: { type: 'RuntimeDefault' },
});
/** A security context of a container that fits the Pod Security Standard `restricted`. */
const restrictedContainer: JsonObject = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };
/**
 * The user of the official images of MongoDB, PostgreSQL, MySQL, MariaDB and Redis. This user owns the files of an
 * existing volume.
 */
const databaseUser = 999;

/**
 * Reads the settings. An empty variable counts as absent, because a ConfigMap cannot unset one.
 *
 * @throws ConfigError with one line per invalid value: the variable, its value, and what it takes.
 */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const values = readEnvironment(
    environment,
    {
      NAMESPACE: dnsLabel({ default: 'default' }),
      WATCH_NAMESPACES: dnsLabels({ default: undefined }),
      SCOPE_CHECK: boolean({ default: true }),
      CONTROLLERS: controllerList({ default: controllersByDefault }),
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
      EXPLAIN_DIR: path({ default: undefined }),
      SHUTDOWN_TIMEOUT_SECONDS: seconds({ default: 20 }),
      ENV: text({ default: 'local' }),
      LOG_LEVEL: logLevel({ default: 'debug' }),
      ECHO_IMAGE: image({ default: 'busybox:1.36' }),
      ECHO_RESOURCES: resources({
        default: { requests: { cpu: '10m', memory: '16Mi' }, limits: { memory: '64Mi' } },
      }),
      POD_SET_IMAGE: image({ default: 'busybox:1.36' }),
      CHILD_POD_IMAGE_PULL_SECRETS: dnsSubdomains({ default: undefined }),
      CHILD_POD_LABELS: podLabels({ default: undefined }),
      CHILD_POD_ANNOTATIONS: jsonLabels({ default: undefined }),
      CHILD_POD_NODE_SELECTOR: jsonLabels({ default: undefined }),
      CHILD_POD_TOLERATIONS: jsonObjects({ default: undefined }),
      CHILD_POD_AFFINITY: jsonObject({ default: undefined }),
      CHILD_POD_PRIORITY_CLASS_NAME: dnsSubdomain({ default: undefined }),
      CHILD_POD_SECURITY_CONTEXT: jsonObject({ default: restrictedPod(65_534) }),
      CHILD_POD_CONTAINER_SECURITY_CONTEXT: jsonObject({
        default: { ...restrictedContainer, readOnlyRootFilesystem: true },
      }),
      BOOK_STORE_POD_SECURITY_CONTEXT: jsonObject({
        default: { ...restrictedPod(databaseUser), fsGroup: databaseUser, fsGroupChangePolicy: 'OnRootMismatch' },
      }),
      BOOK_STORE_CONTAINER_SECURITY_CONTEXT: jsonObject({ default: restrictedContainer }),
      PETSTORE_ADDRESS: address({ default: 'petstore-service.petstore.svc.cluster.local:6742' }),
      PETSTORE_TLS: boolean({ default: false }),
      PETSTORE_CA_FILE: text({ default: undefined }),
      PETSTORE_CERT_FILE: text({ default: undefined }),
      PETSTORE_KEY_FILE: text({ default: undefined }),
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
      HELM_RELEASE: dnsSubdomain({ default: undefined }),
      KUBECONFIG: text({ default: undefined }),
    },
    ConfigError,
  );
  if (values.METRICS_ENABLED && values.METRICS_PORT === values.HEALTH_PORT) {
    throw new ConfigError(
      `METRICS_PORT: got ${values.METRICS_PORT}, takes a port other than HEALTH_PORT's ${values.HEALTH_PORT}`,
    );
  }
  if (values.CONTROLLERS.includes('postgresWriter')) requireDatabase(values);
  requireTogether(values, 'PETSTORE_CERT_FILE', 'PETSTORE_KEY_FILE');
  return {
    namespace: values.NAMESPACE,
    watchNamespaces: values.WATCH_NAMESPACES,
    scopeCheck: values.SCOPE_CHECK,
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
    explainDir: values.EXPLAIN_DIR,
    shutdownTimeoutSeconds: values.SHUTDOWN_TIMEOUT_SECONDS,
    env: values.ENV,
    logLevel: values.LOG_LEVEL,
    echoImage: values.ECHO_IMAGE,
    echoResources: values.ECHO_RESOURCES,
    podSetImage: values.POD_SET_IMAGE,
    childPod: {
      labels: values.CHILD_POD_LABELS,
      annotations: values.CHILD_POD_ANNOTATIONS,
      imagePullSecrets: values.CHILD_POD_IMAGE_PULL_SECRETS,
      nodeSelector: values.CHILD_POD_NODE_SELECTOR,
      tolerations: values.CHILD_POD_TOLERATIONS,
      affinity: values.CHILD_POD_AFFINITY,
      priorityClassName: values.CHILD_POD_PRIORITY_CLASS_NAME,
      securityContext: values.CHILD_POD_SECURITY_CONTEXT,
      containerSecurityContext: values.CHILD_POD_CONTAINER_SECURITY_CONTEXT,
    },
    bookStore: {
      podSecurityContext: values.BOOK_STORE_POD_SECURITY_CONTEXT,
      containerSecurityContext: values.BOOK_STORE_CONTAINER_SECURITY_CONTEXT,
    },
    petstore: {
      address: values.PETSTORE_ADDRESS,
      tls: values.PETSTORE_TLS,
      caFile: values.PETSTORE_CA_FILE,
      certFile: values.PETSTORE_CERT_FILE,
      keyFile: values.PETSTORE_KEY_FILE,
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
    helmRelease: values.HELM_RELEASE,
    kubeconfig: values.KUBECONFIG,
  };
}

/** @throws ConfigError if one of two settings is missing. */
function requireTogether<Name extends string>(
  values: Readonly<Record<Name, string | undefined>>,
  one: Name,
  other: Name,
): void {
  if ((values[one] === undefined) === (values[other] === undefined)) return;
  const [given, missing] = values[one] === undefined ? [other, one] : [one, other];
  throw new ConfigError(`${missing}: got nothing, takes a file, because ${given} is set`);
}

/** @throws ConfigError if the database's host or role is missing. */
function requireDatabase(values: {
  readonly PSQL_HOST: string | undefined;
  readonly PSQL_USER: string | undefined;
  readonly PSQL_CREDENTIALS_DIR: string | undefined;
}): void {
  const why = 'because CONTROLLERS includes postgresWriter';
  const lines: string[] = [];
  if (values.PSQL_HOST === undefined) lines.push(`PSQL_HOST: got nothing, takes the host of the database, ${why}`);
  if (values.PSQL_USER === undefined && values.PSQL_CREDENTIALS_DIR === undefined) {
    lines.push(`PSQL_USER: got nothing, takes the role in the database, ${why}; or set PSQL_CREDENTIALS_DIR`);
  }
  if (lines.length > 0) throw new ConfigError(lines.join('\n'));
}
