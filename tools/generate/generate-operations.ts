import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { replacePart } from '@echoperator/cli';
import { Metrics } from '@echoperator/runtime/process';
import { Registry } from 'prom-client';
import { isMap, isScalar, parseDocument, type YAMLMap } from 'yaml';
import { readConfig } from '../../src/config.ts';
import { externalSystemUp } from '../../src/external/external-system-up.ts';
import { callMetrics } from '../../src/kinds/pet/call-metrics.ts';
import { connectionMetrics, statementMetrics } from '../../src/kinds/postgres-writer/metrics.ts';

/** The page with the tables of settings and metrics. */
export const operationsPage = 'docs/operations.md';

const valuesFile = 'charts/echoperator/values.yaml';
const configTemplate = 'charts/echoperator/templates/_config.tpl';

/** Variables that the chart's values do not document: their source in the chart and their meaning. */
const withoutValue: Readonly<Record<string, readonly [chartValue: string, meaning: string]>> = {
  NAMESPACE: ["the release's namespace", "The operator's own namespace, with its Lease."],
  SCOPE_CHECK: [
    'none: `true`',
    'Whether the operator waits while [another one](high-availability.md#two-operators) watches one of its namespaces.',
  ],
  CONTROLLERS: [
    'those with `controllers.NAME.enabled`',
    'The controllers that run. The objects of the other kinds report `ControllerDisabled`.',
  ],
  HA_NODE_ID: ["the pod's name", "This replica's name on the Lease and in Events (`reportingInstance`)."],
  HA_LEASE_LOCK_NAME: ["the chart's full name", 'The name of the Lease.'],
  POD_NAME: [
    "the pod's name",
    'The name of this pod. `POD_NAME`, `POD_UID` and `CONTAINER_NAME` identify the container of this process, ' +
      'for [crash detection](crash-detection.md).',
  ],
  POD_UID: ["the pod's uid", 'The uid of this pod.'],
  CONTAINER_NAME: ["the container's name", 'The name of the container of this process.'],
  EXPLAIN_DIR: [
    'with `explain.enabled` `/dev/shm`',
    'Folder of the socket that [explain](#explain) connects to. Only the user of the process may open the socket. ' +
      'Empty: nothing is recorded.',
  ],
  CHILD_POD_IMAGE_PULL_SECRETS: [
    'the names in `imagePullSecrets`',
    'Secrets that nodes use to pull the images of the pods that the operator creates. ' +
      'Each must exist in the namespace of the pod.',
  ],
  PETSTORE_ADDRESS: ['follows from `pet.address` and `petstore.enabled`', 'The [pet store](pet-store.md) of Pets.'],
  PETSTORE_TLS: ['follows from `pet.tls.enabled` and `petstore.tls`', 'Connects to the pet store over TLS.'],
  PETSTORE_CA_FILE: [
    'the Secret `pet.tls.existingSecret`',
    "The file of the certificate's authority, in PEM, read for each connection. Default: the public authorities.",
  ],
  PETSTORE_CERT_FILE: [
    'the same Secret, or `petstore.tls`',
    'The file of the certificate that the operator presents, in PEM, read for each connection.',
  ],
  PETSTORE_KEY_FILE: ['the same', 'The file of the key of that certificate, in PEM.'],
  PSQL_USER: [
    'none: it is in the Secret',
    'The role. Required with the controller postgresWriter, unless `PSQL_CREDENTIALS_DIR` has it.',
  ],
  PSQL_PASSWORD: ['none: it is in the Secret', 'The password of the role.'],
  PSQL_CREDENTIALS_DIR: [
    'where the chart mounts `postgresWriter.credentials.existingSecret`',
    'A folder with files `PSQL_USER` and `PSQL_PASSWORD`, which override the variables. ' +
      'The operator reads the files again when they change.',
  ],
  PSQL_SSLROOTCERT: [
    'where the chart mounts `postgresWriter.tls.existingSecret`',
    'The file of the authorities for `verify-full`, read again when it changes. Default: those that Node trusts.',
  ],
  HELM_RELEASE: [
    "the release's name, in the Job before `helm uninstall`",
    'The release in the commands of `check-uninstall`.',
  ],
  KUBECONFIG: [
    'none: a pod has its service account',
    'One kubeconfig file. Default: the service account of a pod, else `~/.kube/config`.',
  ],
};

/**
 * The page with its tables: the settings from config.ts and the chart, the metrics from the runtime.
 *
 * @throws Error if the page lacks the comments that a table stands between, or a variable has no description.
 */
export async function operationsTables(root: string): Promise<readonly [path: string, content: string]> {
  const read = (path: string): Promise<string> => readFile(join(root, path), 'utf8');
  const [page, values, template] = await Promise.all([read(operationsPage), read(valuesFile), read(configTemplate)]);
  const withSettings = replacePart(operationsPage, page, 'settings', settingsTable(values, template));
  const withMetrics = replacePart(operationsPage, withSettings, 'metrics', await metricsTable('metric', ofRuntime()));
  const external = await metricsTable('metric of external systems', ofExternal());
  return [operationsPage, replacePart(operationsPage, withMetrics, 'metrics of external systems', external)];
}

/** The metrics of every operator. */
export function ofRuntime(): Registry {
  const registry = new Registry();
  new Metrics(registry);
  return registry;
}

/** The metrics of the controllers with an external system. */
export function ofExternal(): Registry {
  const registry = new Registry();
  externalSystemUp(registry, 'postgres', { isDown: () => false, isAwaited: () => false });
  statementMetrics(registry, { query: async () => [] });
  connectionMetrics(registry, {
    database: { connections: () => ({ idle: 0, inUse: 0, waitingStatements: 0 }) },
    tables: { waitingStatements: 0 },
    poolSize: 1,
  });
  callMetrics(registry);
  return registry;
}

function settingsTable(values: string, template: string): string {
  const documented = new Map(
    [...template.matchAll(/^(\w+): \{\{ \.Values\.([\w.]+)/gm)].map(([, name = '', path = '']) => [name, path]),
  );
  const rows = Object.entries(variablesOf(readConfig({}))).map(([name, value]) => {
    const path = documented.get(name);
    const [chartValue, meaning] =
      path === undefined ? describedHere(name) : describedByChart(parseDocument(values).contents, path, value);
    return `| \`${name}\` | ${defaultOf(value)} | ${whatItTakes(name)} | ${chartValue} | ${meaning} |\n`;
  });
  return `| variable | default | takes | chart value | meaning |\n| --- | --- | --- | --- | --- |\n${rows.join('')}`;
}

/** The variables and their values by name: `ha.nodeId` is read from HA_NODE_ID. */
function variablesOf(config: object, prefix = ''): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(config).flatMap(([key, value]) => {
      const name = `${prefix}${key.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
      if (Array.isArray(value)) return [[name, value.join(',')]];
      if (typeof value !== 'object' || value === null) return [[name, value]];
      return refusalOf(name) === undefined
        ? Object.entries(variablesOf(value, `${name}_`))
        : [[name, JSON.stringify(value)]];
    }),
  );
}

function defaultOf(value: unknown): string {
  if (value === undefined) return 'none';
  return value === hostname() ? "the host's name" : `\`${value}\``;
}

/** Returns the text after "takes" in the error for a blank value. */
function whatItTakes(name: string): string {
  const takes = refusalOf(name);
  if (takes === undefined) throw new Error(`${name} takes a blank value`);
  return takes;
}

/**
 * What the variable takes instead of a blank value. Undefined if there is no such variable, but a group of variables.
 */
function refusalOf(name: string): string | undefined {
  try {
    readConfig({ [name]: ' ' });
    return undefined;
  } catch (error) {
    return /: got " ", takes (.*)$/m.exec(String(error))?.[1];
  }
}

function describedHere(name: string): readonly [chartValue: string, meaning: string] {
  const described = withoutValue[name];
  if (described === undefined) throw new Error(`${name} has neither a value of the chart nor a description`);
  return described;
}

function describedByChart(contents: unknown, path: string, value: unknown): readonly [string, string] {
  const found = path.split('.').reduce<{ node: unknown; comment: string }>(
    ({ node }, key) => {
      if (!isMap(node)) throw new Error(`${valuesFile} has no ${path}`);
      return entryOf(node, key);
    },
    { node: contents, comment: '' },
  );
  if (found.comment === '') throw new Error(`${path} has no comment in ${valuesFile}`);
  if (!isScalar(found.node)) return [`\`${path}\``, found.comment.replaceAll('|', '\\|')];
  const set = found.node.value;
  const chartValue = String(set) === String(value ?? '') ? `\`${path}\`` : `\`${path}\`, there \`${set}\``;
  return [chartValue, found.comment.replaceAll('|', '\\|')];
}

/**
 * Returns a key's value, and the last paragraph of the comment above the key. The parser attaches the comment above a
 * map's first key to the map.
 */
function entryOf(map: YAMLMap, wanted: string): { node: unknown; comment: string } {
  const index = map.items.findIndex(({ key }) => isScalar(key) && key.value === wanted);
  const { key, value } = map.items[index] ?? {};
  const above = (isScalar(key) && key.commentBefore) || (index === 0 && map.commentBefore) || '';
  const lines = above.split('\n').map((line) => line.trim());
  return { node: value, comment: lines.slice(lines.lastIndexOf('') + 1).join(' ') };
}

async function metricsTable(title: string, registry: Registry): Promise<string> {
  const labels = new Map(
    (registry.getMetricsAsArray() as unknown as { name: string; labelNames: readonly string[] }[]).map(
      ({ name, labelNames }) => [name, labelNames],
    ),
  );
  const rows = (await registry.getMetricsAsJSON()).map(({ name, type, help }) => {
    const named = (labels.get(name) ?? []).map((label) => `\`${label}\``).join(', ');
    return `| \`${name}\` | ${type} | ${named} | ${help.replace(/\.$/, '')}. |\n`;
  });
  return `| ${title} | type | labels | meaning |\n| --- | --- | --- | --- |\n${rows.join('')}`;
}
