import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Client, findCondition, type ObjectKey } from '@echoperator/runtime';
import { isNotFound, type List } from '@echoperator/runtime/client';
import type { FaultProxy } from '@echoperator/testing';
import { forEachConcurrently } from '../../../packages/testing/src/for-each-concurrently.ts';
import { PostgresWriter } from '../../../src/kinds/postgres-writer/kind.ts';
import { ChartRole } from '../../../testkit/chart-role.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { OperatorProcess } from '../../../testkit/operator-process.ts';
import { PostgresServer } from '../../../testkit/postgres-server.ts';
import { proxiedKubeconfig } from '../../../testkit/proxied-kubeconfig.ts';
import { TestCluster } from '../../../testkit/test-cluster.ts';
import { customManifest, withReason } from '../../../testkit/with-reason.ts';

/** The operator's role in the database, with exactly the permissions of docs/postgres-writer.md. */
export const writerRole = { PSQL_USER: 'writer', PSQL_PASSWORD: 'of the writer: "quoted", \\slashed' } as const;

/** A row of a table. */
export interface StoredRow {
  readonly id: string;
  readonly name: string;
  readonly age: number;
  readonly country: string;
}

/** Returns the id of a PostgresWriter's row. */
export const idOf = ({ namespace, name }: ObjectKey): string => `${namespace}/${name}`;

export const readyOf = ({ status }: PostgresWriter) => findCondition(status?.conditions, 'Ready');

/** Quotes a name or a text for SQL. */
export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** A database for PostgresWriters, and the operator with the chart's cluster-wide role. */
export class PostgresWorld implements AsyncDisposable {
  readonly cluster: TestCluster;
  /** The namespace of {@link newKey}. */
  readonly namespace: string;
  readonly database: PostgresServer;
  readonly folder: string;
  /** Authenticates as the chart's service account. */
  readonly kubeconfig: string;
  readonly #resources: AsyncDisposableStack;
  #operator: OperatorProcess | undefined;
  #keys = 0;

  private constructor(
    parts: Pick<PostgresWorld, 'cluster' | 'namespace' | 'database' | 'folder' | 'kubeconfig'>,
    resources: AsyncDisposableStack,
  ) {
    this.cluster = parts.cluster;
    this.namespace = parts.namespace;
    this.database = parts.database;
    this.folder = parts.folder;
    this.kubeconfig = parts.kubeconfig;
    this.#resources = resources;
  }

  static async start(): Promise<PostgresWorld> {
    await using resources = new AsyncDisposableStack();
    const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'postgres-'));
    resources.defer(() => rm(folder, { recursive: true, force: true }));
    const database = resources.use(await PostgresServer.start());
    await database.query(`CREATE ROLE writer LOGIN PASSWORD ${literal(writerRole.PSQL_PASSWORD)}`);
    await database.query('ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO writer');
    const cluster = await TestCluster.connect();
    resources.defer(() => cluster.close());
    const namespace = await cluster.namespace();
    const role = await ChartRole.install(cluster, namespace, namespace, {
      controllers: { postgresWriter: { enabled: true } },
      postgresWriter: { host: database.host, credentials: { existingSecret: 'writer' } },
    });
    resources.defer(() => role.remove());
    return new PostgresWorld({ cluster, namespace, database, folder, kubeconfig: role.kubeconfig }, resources.move());
  }

  get client(): Client {
    return this.cluster.client;
  }

  /** Returns a new key whose name starts with `name`. */
  newKey(name: string): Required<ObjectKey> {
    this.#keys += 1;
    return { name: `${name}-${this.#keys}`, namespace: this.namespace };
  }

  /** Starts a proxy for the API server. An operator with the returned kubeconfig uses it. The caller closes it. */
  throughProxy(): Promise<{ readonly proxy: FaultProxy; readonly kubeconfig: string }> {
    return proxiedKubeconfig(this.kubeconfig, this.folder);
  }

  /** @throws Error if no operator runs */
  get operator(): OperatorProcess {
    if (this.#operator === undefined) throw new Error('no operator runs');
    return this.#operator;
  }

  /** Starts the operator with the chart's role and only the controller of PostgresWriters. */
  async startOperator(settings: Readonly<Record<string, string>> = {}): Promise<OperatorProcess> {
    const { host, port, caFile } = this.database;
    this.#operator = await OperatorProcess.start(settings.KUBECONFIG ?? this.kubeconfig, {
      CONTROLLERS: 'postgresWriter',
      PSQL_HOST: host,
      PSQL_PORT: String(port),
      PSQL_SSLROOTCERT: caFile,
      ...(settings.PSQL_CREDENTIALS_DIR === undefined && writerRole),
      ...settings,
    });
    return this.#operator;
  }

  /** Stops the operator and returns its log. */
  async stopOperator(signal?: 'SIGTERM' | 'SIGKILL'): Promise<string> {
    const operator = this.#operator;
    this.#operator = undefined;
    return operator === undefined ? '' : (await operator.stop(signal)).output;
  }

  /** Creates a table with the columns of the kind. */
  async createTable(name: string, schema = 'public'): Promise<void> {
    await this.database.query(`CREATE SCHEMA IF NOT EXISTS ${quoted(schema)}; GRANT USAGE ON SCHEMA ${quoted(schema)} TO writer;
      CREATE TABLE ${quoted(schema)}.${quoted(name)} (id text PRIMARY KEY, name text, age integer, country text)`);
  }

  /** Returns a table's rows. @param of only those of a PostgresWriter or of a namespace */
  async rows(table: string, of?: Required<ObjectKey> | string): Promise<readonly StoredRow[]> {
    const isNamespace = typeof of === 'string';
    const where = isNamespace
      ? `id LIKE ${literal(`${of}/%`)}`
      : of === undefined
        ? 'true'
        : `id = ${literal(idOf(of))}`;
    return this.database.query<StoredRow>(`SELECT id, name, age, country FROM ${table} WHERE ${where} ORDER BY id`);
  }

  apply(key: ObjectKey, spec: PostgresWriter['spec']): Promise<PostgresWriter> {
    return this.client.apply(PostgresWriter, customManifest(key, spec), { force: true });
  }

  /** Creates or changes the PostgresWriters `many-0`, `many-1` and so on. */
  async applyMany(namespace: string, count: number, spec: PostgresWriter['spec']): Promise<void> {
    const names = Array.from({ length: count }, (_, index) => `many-${index}`);
    await forEachConcurrently(names, (name) => this.apply({ name, namespace }, { ...spec, name }));
  }

  get(key: ObjectKey): Promise<PostgresWriter> {
    return this.client.get(PostgresWriter, key);
  }

  withReason(key: ObjectKey, reason: string): Promise<PostgresWriter> {
    return withReason(this.cluster, PostgresWriter, key, reason);
  }

  async delete(key: ObjectKey): Promise<void> {
    await this.client.delete(PostgresWriter, key).catch(unlessNotFound);
  }

  /** Waits until a PostgresWriter is gone. */
  async gone(key: ObjectKey): Promise<void> {
    await eventually(`${key.name} is gone`, () => this.cluster.isGone(() => this.get(key)));
  }

  /** Returns all PostgresWriters of a namespace. */
  async list(namespace: string): Promise<readonly PostgresWriter[]> {
    const items: PostgresWriter[] = [];
    for (let token: string | undefined, first = true; first || token; first = false) {
      const options = { namespace, limit: 500, ...(token && { continue: token }) };
      const page: List<PostgresWriter> = await this.client.list(PostgresWriter, options);
      items.push(...page.items);
      token = page.metadata.continue;
    }
    return items;
  }

  /** Waits until the tables contain exactly the rows of the namespace's PostgresWriters. */
  async settled(namespace: string, tables: readonly string[], timeoutMs = 180_000): Promise<void> {
    let difference = '';
    let unsettled: PostgresWriter | undefined;
    const look = async (): Promise<boolean> => {
      // Check a single PostgresWriter first: a list of hundreds in each poll would take CPU from the operator.
      if (unsettled !== undefined && (await this.#isUnsettled({ ...unsettled.metadata, namespace }))) return false;
      const writers = await this.list(namespace);
      unsettled = writers.findLast((writer) => !isReady(writer));
      if (unsettled !== undefined) {
        difference = `${unsettled.metadata.name} is not ready: ${JSON.stringify(unsettled.status)}`;
        return false;
      }
      const wanted = new Map(
        writers.map(({ metadata, spec }) => [`${namespace}/${metadata.name}`, { ...spec }] as const),
      );
      const found: [string, object][] = [];
      for (const table of tables) {
        for (const { id, ...row } of await this.rows(table, namespace)) found.push([id, { table, ...row }]);
      }
      difference = firstDifference(wanted, found);
      return difference === '';
    };
    await eventually('rows are as resources', look, timeoutMs).catch((cause: unknown) => {
      throw new Error(`rows are not as resources: ${difference}`, { cause });
    });
  }

  /** Returns false also if there is no such PostgresWriter. */
  async #isUnsettled({ namespace, name }: Required<ObjectKey>): Promise<boolean> {
    try {
      return !isReady(await this.get({ namespace, name }));
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopOperator('SIGKILL');
    await this.#releaseAll();
    await this.#resources.disposeAsync();
  }

  /** Removes the finalizers: no operator runs, and the rows are removed with the database. */
  async #releaseAll(): Promise<void> {
    const body = { metadata: { finalizers: null } };
    for (const namespace of this.cluster.namespaces) {
      await forEachConcurrently(await this.list(namespace), ({ metadata }) =>
        this.client.patch(PostgresWriter, metadata, { type: 'merge', body }).catch(unlessNotFound),
      );
    }
  }
}

function unlessNotFound(error: unknown): void {
  if (!isNotFound(error)) throw error;
}

const isReady = (writer: PostgresWriter): boolean => {
  const { metadata } = writer;
  const ready = readyOf(writer);
  return ready?.reason === 'RowWritten' && ready.observedGeneration === metadata.generation;
};

function firstDifference(wanted: ReadonlyMap<string, object>, found: readonly [string, object][]): string {
  if (found.length !== wanted.size) return `${found.length} rows for ${wanted.size} resources`;
  for (const [id, row] of found) {
    const [actual, expected] = [sorted(row), sorted(wanted.get(id) ?? {})];
    if (actual !== expected) return `${id} is ${actual}, not ${expected}`;
  }
  return '';
}

const sorted = (row: object): string => JSON.stringify(Object.entries(row).sort());
