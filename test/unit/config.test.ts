import { hostname } from 'node:os';
import { describe, expect, test } from '@jest/globals';
import { type Config, ConfigError, readConfig } from '../../src/config.ts';
import { controllerNames } from '../../src/kinds.ts';

const defaults: Config = {
  namespace: 'default',
  watchNamespaces: undefined,
  scopeCheck: true,
  controllers: ['echo', 'scheduledEcho'],
  numWorkers: 4,
  resyncSeconds: 600,
  ha: {
    enabled: false,
    nodeId: hostname(),
    leaseLockName: 'echoperator',
    leaseDurationSeconds: 15,
    renewDeadlineSeconds: 10,
    retryPeriodSeconds: 2,
    warmStandby: false,
  },
  pod: { name: undefined, uid: undefined },
  containerName: undefined,
  metrics: { enabled: true, path: '/metrics', port: 2112 },
  healthPort: 8081,
  explainDir: undefined,
  shutdownTimeoutSeconds: 20,
  env: 'local',
  logLevel: 'debug',
  echoImage: 'busybox:1.36',
  echoResources: { requests: { cpu: '10m', memory: '16Mi' }, limits: { memory: '64Mi' } },
  podSetImage: 'busybox:1.36',
  childPod: {
    labels: undefined,
    annotations: undefined,
    imagePullSecrets: undefined,
    nodeSelector: undefined,
    tolerations: undefined,
    affinity: undefined,
    priorityClassName: undefined,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: 65_534,
      runAsGroup: 65_534,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    containerSecurityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
  },
  bookStore: {
    podSecurityContext: {
      runAsNonRoot: true,
      runAsUser: 999,
      runAsGroup: 999,
      seccompProfile: { type: 'RuntimeDefault' },
      fsGroup: 999,
      fsGroupChangePolicy: 'OnRootMismatch',
    },
    containerSecurityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
  },
  petstore: {
    address: 'petstore-service.petstore.svc.cluster.local:6742',
    tls: false,
    caFile: undefined,
    certFile: undefined,
    keyFile: undefined,
    timeoutSeconds: 10,
  },
  psql: {
    host: undefined,
    port: 5432,
    dbname: 'postgres',
    user: undefined,
    password: undefined,
    credentialsDir: undefined,
    sslmode: 'verify-full',
    sslrootcert: undefined,
    poolSize: 4,
    tables: undefined,
    connectTimeoutSeconds: 5,
    statementTimeoutSeconds: 5,
  },
  helmRelease: undefined,
  kubeconfig: undefined,
};

/** One value that each variable takes, other than its default. */
const full = {
  NAMESPACE: 'echo-system',
  WATCH_NAMESPACES: ' team-a, team-b ,c',
  SCOPE_CHECK: 'false',
  CONTROLLERS: 'podSet, echo',
  NUM_WORKERS: '8',
  RESYNC_SECONDS: '90.5',
  HA_ENABLED: 'true',
  HA_NODE_ID: 'node-1',
  HA_LEASE_LOCK_NAME: 'lock.of.team-a',
  HA_LEASE_DURATION_SECONDS: '30',
  HA_RENEW_DEADLINE_SECONDS: '20.5',
  HA_RETRY_PERIOD_SECONDS: '0.5',
  HA_WARM_STANDBY: 'true',
  POD_NAME: 'echoperator-7d4b-x2',
  POD_UID: '0d6f2b5e-4bb1-4f8e-9a44-1a2b3c4d5e6f',
  CONTAINER_NAME: 'operator',
  METRICS_ENABLED: 'false',
  METRICS_PATH: '/m/x.y-z',
  METRICS_PORT: '9090',
  HEALTH_PORT: '9091',
  SHUTDOWN_TIMEOUT_SECONDS: '5',
  ENV: 'production',
  LOG_LEVEL: 'warn',
  ECHO_IMAGE: 'registry.example:5000/library/busybox@sha256:abc',
  POD_SET_IMAGE: 'registry.example/sleeper:1',
  CHILD_POD_IMAGE_PULL_SECRETS: 'registry, mirror.example',
  ECHO_RESOURCES: '{"limits":{"cpu":1,"memory":"32Mi"}}',
  CHILD_POD_LABELS: '{"team":"a"}',
  CHILD_POD_ANNOTATIONS: '{"sidecar.istio.io/inject":"false"}',
  CHILD_POD_NODE_SELECTOR: '{"kubernetes.io/os":"linux"}',
  CHILD_POD_TOLERATIONS: '[{"key":"dedicated","operator":"Exists"}]',
  CHILD_POD_AFFINITY: '{"nodeAffinity":{}}',
  CHILD_POD_PRIORITY_CLASS_NAME: 'low',
  CHILD_POD_SECURITY_CONTEXT: '{}',
  CHILD_POD_CONTAINER_SECURITY_CONTEXT: '{"privileged":false}',
  BOOK_STORE_POD_SECURITY_CONTEXT: '{"fsGroup":5}',
  BOOK_STORE_CONTAINER_SECURITY_CONTEXT: '{}',
  PETSTORE_ADDRESS: '[fd00::1]:6742',
  PETSTORE_TLS: 'true',
  PETSTORE_CA_FILE: '/etc/petstore/ca.crt',
  PETSTORE_CERT_FILE: '/etc/petstore/tls.crt',
  PETSTORE_KEY_FILE: '/etc/petstore/tls.key',
  PETSTORE_TIMEOUT_SECONDS: '2.5',
  PSQL_HOST: 'db.example',
  PSQL_PORT: '6432',
  PSQL_DBNAME: 'school',
  PSQL_USER: 'writer',
  PSQL_PASSWORD: ' with spaces ',
  PSQL_CREDENTIALS_DIR: '/etc/postgres',
  PSQL_SSLMODE: 'require',
  PSQL_SSLROOTCERT: '/etc/postgres/ca.crt',
  PSQL_POOL_SIZE: '2',
  PSQL_TABLES: 'public.students, school.the teachers',
  PSQL_CONNECT_TIMEOUT_SECONDS: '1',
  PSQL_STATEMENT_TIMEOUT_SECONDS: '2.5',
  KUBECONFIG: '/home/jane/.kube/config',
};

test('an empty environment gives the defaults', () => {
  expect(readConfig({})).toEqual(defaults);
});

test('every variable is read', () => {
  expect(readConfig(full)).toEqual({
    namespace: 'echo-system',
    watchNamespaces: ['team-a', 'team-b', 'c'],
    scopeCheck: false,
    controllers: ['echo', 'podSet'],
    numWorkers: 8,
    resyncSeconds: 90.5,
    ha: {
      enabled: true,
      nodeId: 'node-1',
      leaseLockName: 'lock.of.team-a',
      leaseDurationSeconds: 30,
      renewDeadlineSeconds: 20.5,
      retryPeriodSeconds: 0.5,
      warmStandby: true,
    },
    pod: { name: 'echoperator-7d4b-x2', uid: '0d6f2b5e-4bb1-4f8e-9a44-1a2b3c4d5e6f' },
    containerName: 'operator',
    metrics: { enabled: false, path: '/m/x.y-z', port: 9090 },
    healthPort: 9091,
    shutdownTimeoutSeconds: 5,
    env: 'production',
    logLevel: 'warn',
    echoImage: 'registry.example:5000/library/busybox@sha256:abc',
    echoResources: { limits: { cpu: 1, memory: '32Mi' } },
    podSetImage: 'registry.example/sleeper:1',
    childPod: {
      labels: { team: 'a' },
      annotations: { 'sidecar.istio.io/inject': 'false' },
      imagePullSecrets: ['registry', 'mirror.example'],
      nodeSelector: { 'kubernetes.io/os': 'linux' },
      tolerations: [{ key: 'dedicated', operator: 'Exists' }],
      affinity: { nodeAffinity: {} },
      priorityClassName: 'low',
      securityContext: {},
      containerSecurityContext: { privileged: false },
    },
    bookStore: { podSecurityContext: { fsGroup: 5 }, containerSecurityContext: {} },
    petstore: {
      address: '[fd00::1]:6742',
      tls: true,
      caFile: '/etc/petstore/ca.crt',
      certFile: '/etc/petstore/tls.crt',
      keyFile: '/etc/petstore/tls.key',
      timeoutSeconds: 2.5,
    },
    psql: {
      host: 'db.example',
      port: 6432,
      dbname: 'school',
      user: 'writer',
      password: ' with spaces ',
      credentialsDir: '/etc/postgres',
      sslmode: 'require',
      sslrootcert: '/etc/postgres/ca.crt',
      poolSize: 2,
      tables: ['public.students', 'school.the teachers'],
      connectTimeoutSeconds: 1,
      statementTimeoutSeconds: 2.5,
    },
    kubeconfig: '/home/jane/.kube/config',
  });
});

test.each([
  ['public.students, school.the teachers', ['public.students', 'school.the teachers']],
  ['school."year.2026","a.b, ""c""".d , x.y"z', ['school."year.2026"', '"a.b, ""c""".d', 'x.y"z']],
])('PSQL_TABLES=%s names tables as spec.table does', (text, expected) => {
  expect(readConfig({ PSQL_TABLES: text }).psql.tables).toEqual(expected);
});

test('an empty variable counts as absent: a ConfigMap cannot unset one', () => {
  const empty = Object.fromEntries(Object.keys(full).map((variable) => [variable, '']));
  expect(readConfig(empty)).toEqual(defaults);
});

test('the environment is left as it was, and what else is in it does not matter', () => {
  const environment = Object.freeze({ NUM_WORKERS: '2', PATH: '/bin', NUM_WORKER: 'x' });
  expect(readConfig(environment).numWorkers).toBe(2);
});

test.each([
  ['true', true],
  ['TRUE', true],
  ['1', true],
  ['false', false],
  ['False', false],
  ['0', false],
])('METRICS_ENABLED=%s is %s', (text, expected) => {
  expect(readConfig({ METRICS_ENABLED: text }).metrics.enabled).toBe(expected);
});

test.each(['trace', 'debug', 'info', 'warn', 'error', 'fatal'])('LOG_LEVEL=%s', (level) => {
  expect(readConfig({ LOG_LEVEL: level }).logLevel).toBe(level);
});

const refusal = (environment: NodeJS.ProcessEnv): string => {
  try {
    readConfig(environment);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as ConfigError).message;
  }
  throw new Error(`not refused: ${JSON.stringify(environment)}`);
};

describe('a value that cannot be is refused by a line that names the variable, what it got and what it takes', () => {
  const label = 'a DNS label: lower-case letters, digits and "-", 63 at most';
  const labels = 'DNS labels with commas between them, each once';
  const subdomain = 'a DNS subdomain: DNS labels with "." between them, 253 characters at most';
  const port = 'a whole number from 1 to 65535';
  const seconds = 'a number of seconds above 0, 86400 at most';
  const notEmpty = 'a text that is not empty';
  const boolean = 'true or false';
  const controllers = `some of ${controllerNames.join(', ')}, with commas between them, each once`;
  const podLabels = 'a JSON object of texts, without the labels by which the operator or Kubernetes finds pods';
  const resources = 'requests and limits, as {"requests":{"cpu":"10m"},"limits":{"memory":"64Mi"}}';
  const tables = 'tables with their schemas, as public.students, with commas between them';
  test.each([
    ['NAMESPACE', 'Default', label],
    ['NAMESPACE', '-a', label],
    ['NAMESPACE', 'a-', label],
    ['NAMESPACE', 'a.b', label],
    ['NAMESPACE', 'x'.repeat(64), label],
    ['CONTROLLERS', 'echo,dog', controllers],
    ['CONTROLLERS', 'echo,echo', controllers],
    ['NUM_WORKERS', '0', 'a whole number from 1 to 1000'],
    ['NUM_WORKERS', '1001', 'a whole number from 1 to 1000'],
    ['NUM_WORKERS', '4.5', 'a whole number from 1 to 1000'],
    ['NUM_WORKERS', 'four', 'a whole number from 1 to 1000'],
    ['NUM_WORKERS', '1e2', 'a whole number from 1 to 1000'],
    ['NUM_WORKERS', '-1', 'a whole number from 1 to 1000'],
    ['SCOPE_CHECK', 'no', boolean],
    ['HA_ENABLED', 'yes', boolean],
    ['HA_NODE_ID', '   ', notEmpty],
    ['HA_LEASE_LOCK_NAME', 'a_b', subdomain],
    ['HA_LEASE_LOCK_NAME', 'a..b', subdomain],
    ['HA_LEASE_LOCK_NAME', `${'x'.repeat(63)}.${'x'.repeat(64)}`, subdomain],
    ['HA_LEASE_LOCK_NAME', 'x.'.repeat(126).concat('xx'), subdomain],
    ['HA_LEASE_DURATION_SECONDS', '0', seconds],
    ['HA_LEASE_DURATION_SECONDS', '15s', seconds],
    ['HA_RENEW_DEADLINE_SECONDS', '-10', seconds],
    ['HA_RETRY_PERIOD_SECONDS', '86401', seconds],
    ['HA_WARM_STANDBY', 'warm', boolean],
    ['POD_NAME', 'Pod', subdomain],
    ['POD_UID', ' ', notEmpty],
    ['CONTAINER_NAME', 'a.b', label],
    ['WATCH_NAMESPACES', ' ', labels],
    ['WATCH_NAMESPACES', 'a,', labels],
    ['WATCH_NAMESPACES', 'a b', labels],
    ['WATCH_NAMESPACES', 'a,B', labels],
    ['WATCH_NAMESPACES', 'a, b,a', `${labels}: "a" appears twice`],
    ['METRICS_ENABLED', '2', boolean],
    // Names of what every JavaScript object has.
    ['METRICS_ENABLED', 'constructor', boolean],
    ['METRICS_ENABLED', '__proto__', boolean],
    ['METRICS_PATH', 'metrics', 'a path that begins with "/"'],
    ['METRICS_PATH', '/metrics?x', 'a path that begins with "/"'],
    ['METRICS_PORT', '0', port],
    ['METRICS_PORT', '65536', port],
    ['HEALTH_PORT', 'http', port],
    ['SHUTDOWN_TIMEOUT_SECONDS', 'Infinity', seconds],
    ['ENV', ' ', notEmpty],
    ['LOG_LEVEL', 'verbose', 'one of trace, debug, info, warn, error, fatal'],
    ['LOG_LEVEL', 'INFO', 'one of trace, debug, info, warn, error, fatal'],
    ['ECHO_IMAGE', 'busy box', 'an image reference, as busybox:1.36'],
    ['ECHO_IMAGE', '/busybox', 'an image reference, as busybox:1.36'],
    ['POD_SET_IMAGE', 'busy box', 'an image reference, as busybox:1.36'],
    ['CHILD_POD_IMAGE_PULL_SECRETS', 'a,,b', 'DNS subdomains with commas between them'],
    ['CHILD_POD_NODE_SELECTOR', '{"disk":1}', 'a JSON object of texts, as {"kubernetes.io/os":"linux"}'],
    ['CHILD_POD_LABELS', '{"a":1}', podLabels],
    ['CHILD_POD_LABELS', '{"app":"shop"}', `${podLabels}: "app" is one`],
    ['CHILD_POD_LABELS', '{"team":"a","job-name":"x"}', `${podLabels}: "job-name" is one`],
    ['CHILD_POD_ANNOTATIONS', '[]', 'a JSON object of texts, as {"kubernetes.io/os":"linux"}'],
    ['ECHO_RESOURCES', '{"limit":{"cpu":"1"}}', resources],
    ['ECHO_RESOURCES', '{"limits":{"cpu":{}}}', resources],
    ['ECHO_RESOURCES', 'none', resources],
    ['CHILD_POD_TOLERATIONS', '{}', 'a list of JSON objects, as [{"key":"dedicated","operator":"Exists"}]'],
    ['CHILD_POD_AFFINITY', '[]', 'a JSON object, as {"runAsNonRoot":true}'],
    ['CHILD_POD_PRIORITY_CLASS_NAME', 'Low', subdomain],
    ['CHILD_POD_SECURITY_CONTEXT', 'none', 'a JSON object, as {"runAsNonRoot":true}'],
    ['BOOK_STORE_POD_SECURITY_CONTEXT', 'null', 'a JSON object, as {"runAsNonRoot":true}'],
    ['PETSTORE_ADDRESS', 'petstore', 'a host and a port, as petstore.example:6742'],
    ['PETSTORE_ADDRESS', 'http://petstore:6742', 'a host and a port, as petstore.example:6742'],
    ['PETSTORE_TLS', 'on', boolean],
    ['PETSTORE_CA_FILE', ' ', notEmpty],
    ['PETSTORE_TIMEOUT_SECONDS', '0', seconds],
    ['PSQL_HOST', 'db example', 'a host name, an IP address, or the folder of a Unix socket'],
    ['PSQL_PORT', '0', port],
    ['PSQL_SSLMODE', 'prefer', 'one of disable, require, verify-full'],
    ['PSQL_POOL_SIZE', '0', 'a whole number from 1 to 100'],
    ['PSQL_TABLES', 'students', tables],
    ['PSQL_TABLES', 'public.students,', tables],
    ['PSQL_TABLES', 'a.b.c', tables],
    ['PSQL_TABLES', '"a.b', tables],
    ['PSQL_TABLES', '"a.b"', tables],
    ['PSQL_TABLES', 'a."b"c', tables],
    ['KUBECONFIG', '\t', notEmpty],
  ])('%s=%j', (variable, value, takes) => {
    expect(refusal({ [variable]: value })).toBe(`${variable}: got ${JSON.stringify(value)}, takes ${takes}`);
  });

  test('a line for each, where there are several', () => {
    expect(refusal({ NUM_WORKERS: 'x', LOG_LEVEL: 'loud', HEALTH_PORT: '1' }).split('\n')).toEqual([
      'NUM_WORKERS: got "x", takes a whole number from 1 to 1000',
      'LOG_LEVEL: got "loud", takes one of trace, debug, info, warn, error, fatal',
    ]);
  });
});

test('a client certificate without its key is refused, and a key without its certificate', () => {
  expect(refusal({ PETSTORE_CERT_FILE: 'c' })).toBe(
    'PETSTORE_KEY_FILE: got nothing, takes a file, because PETSTORE_CERT_FILE is set',
  );
  expect(refusal({ PETSTORE_KEY_FILE: 'k' })).toBe(
    'PETSTORE_CERT_FILE: got nothing, takes a file, because PETSTORE_KEY_FILE is set',
  );
});

describe('one port for two servers', () => {
  const line = "METRICS_PORT: got 9000, takes a port other than HEALTH_PORT's 9000";

  test('is refused', () => {
    expect(refusal({ METRICS_PORT: '9000', HEALTH_PORT: '9000' })).toBe(line);
    expect(refusal({ METRICS_PORT: '8081' })).toContain('METRICS_PORT: got 8081');
  });

  test('is fine where only one of them is wanted', () => {
    const environment = { METRICS_PORT: '9000', HEALTH_PORT: '9000', METRICS_ENABLED: 'false' };
    expect(readConfig(environment).healthPort).toBe(9000);
  });
});

describe('the controller of PostgresWriters', () => {
  const on = { CONTROLLERS: 'echo,postgresWriter' };

  test('does not run unless it is asked to', () => {
    expect(readConfig({ PSQL_HOST: 'db', PSQL_USER: 'writer' }).controllers).not.toContain('postgresWriter');
    expect(readConfig({ ...on, PSQL_HOST: 'db', PSQL_USER: 'writer' }).controllers).toEqual(['echo', 'postgresWriter']);
  });

  test('needs a database and a role', () => {
    expect(refusal(on).split('\n')).toEqual([
      'PSQL_HOST: got nothing, takes the host of the database, because CONTROLLERS includes postgresWriter',
      'PSQL_USER: got nothing, takes the role in the database, because CONTROLLERS includes postgresWriter; or set PSQL_CREDENTIALS_DIR',
    ]);
    expect(readConfig({ ...on, PSQL_HOST: 'db', PSQL_CREDENTIALS_DIR: '/secret' }).psql.user).toBeUndefined();
  });
});
