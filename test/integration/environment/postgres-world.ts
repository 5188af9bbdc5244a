import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { PostgresWriter } from '../../../src/api/index.ts';
import { type Client, findCondition, isNotFound, type List, type ObjectKey } from '../../../src/runtime/index.ts';
import type { FaultProxy } from '../../../src/runtime/testing/index.ts';
import { chartRole } from '../../../testkit/chart-role.ts';
import { type ControlPlane, startControlPlane } from '../../../testkit/control-plane.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { OperatorProcess } from '../../../testkit/operator-process.ts';
import { PostgresServer } from '../../../testkit/postgres-server.ts';
import { proxiedKubeconfig } from '../../../testkit/proxied-kubeconfig.ts';
import { TestCluster } from '../../../testkit/test-cluster.ts';
import { customManifest, withReason } from '../../../testkit/with-reason.ts';

/** The operator's role in the database, which may do what docs/postgres-writer.md says and nothing else. */
export const writerRole = { PSQL_USER: 'writer', PSQL_PASSWORD: 'of the writer: "quoted", \\slashed' } as const;

/** What a table's row holds. */
export interface StoredRow {
  readonly id: string;
  readonly name: string;
  readonly age: number;
  readonly country: string;
}

/** In SQL, whatever it holds. */
export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/**
 * An API server and a database of their own, for PostgresWriters: beside the shared API server other tests run operators in
 * which the kind is switched off, and these say so on every PostgresWriter there is.
 */
export class PostgresWorld implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly database: PostgresServer;
  /** Of the role that the chart makes when the controller of PostgresWriters is on. */
  readonly kubeconfig: string;
  readonly folder: string;
  readonly #controlPlane: ControlPlane;
  #operator: OperatorProcess | undefined;

  private constructor(
    cluster: TestCluster,
    database: PostgresServer,
    kubeconfig: string,
    folder: string,
    controlPlane: ControlPlane,
  ) {
    this.cluster = cluster;
    this.database = database;
    this.kubeconfig = kubeconfig;
    this.folder = folder;
    this.#controlPlane = controlPlane;
  }

  static async start(): Promise<PostgresWorld> {
    const folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER ?? '', 'postgres-'));
    const started: { end(): Promise<unknown> }[] = [];
    try {
      const controlPlane = await startControlPlane(folder, [join(import.meta.dirname, '../../../crds')]);
      started.push({ end: () => controlPlane.stop() });
      const database = await PostgresServer.start();
      started.push({ end: () => database[Symbol.asyncDispose]() });
      const { kubeconfigPath } = controlPlane.config;
      const cluster = await TestCluster.at(kubeconfigPath, controlPlane.auditLog);
      const values = {
        controllers: { postgresWriter: { enabled: true } },
        postgresWriter: { host: database.host, credentials: { existingSecret: 'writer' } },
      };
      const kubeconfig = await chartRole(kubeconfigPath, { namespace: 'default', folder, values });
      await database.query(`CREATE ROLE writer LOGIN PASSWORD ${literal(writerRole.PSQL_PASSWORD)}`);
      await database.query('ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO writer');
      return new PostgresWorld(cluster, database, kubeconfig, folder, controlPlane);
    } catch (error) {
      for (const { end } of started.reverse()) await end();
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  get client(): Client {
    return this.cluster.client;
  }

  /** A proxy before the API server, for whoever starts the operator with that kubeconfig; who asked for it closes it. */
  throughProxy(): Promise<{ readonly proxy: FaultProxy; readonly kubeconfig: string }> {
    return proxiedKubeconfig(this.kubeconfig, this.folder);
  }

  /** @throws Error unless one runs. */
  get operator(): OperatorProcess {
    if (this.#operator === undefined) throw new Error('no operator runs');
    return this.#operator;
  }

  /** Starts the operator, under exactly the chart's role, with the controller of PostgresWriters alone. */
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

  /** Stops it, and returns what it has written to its log. */
  async stopOperator(signal?: 'SIGTERM' | 'SIGKILL'): Promise<string> {
    const operator = this.#operator;
    this.#operator = undefined;
    return operator === undefined ? '' : (await operator.stop(signal)).output;
  }

  /** Makes a table as the kind wants it. */
  async createTable(name: string, schema = 'public'): Promise<void> {
    await this.database.query(`CREATE SCHEMA IF NOT EXISTS ${quoted(schema)}; GRANT USAGE ON SCHEMA ${quoted(schema)} TO writer;
      CREATE TABLE ${quoted(schema)}.${quoted(name)} (id text PRIMARY KEY, name text, age integer, country text)`);
  }

  /** What a table holds, of one namespace where that is given. */
  async rows(table: string, namespace?: string): Promise<readonly StoredRow[]> {
    const where = namespace === undefined ? '' : `WHERE id LIKE ${literal(`${namespace}/%`)}`;
    return this.database.query<StoredRow>(`SELECT id, name, age, country FROM ${table} ${where} ORDER BY id`);
  }

  apply(key: ObjectKey, spec: PostgresWriter['spec']): Promise<PostgresWriter> {
    return this.client.apply(PostgresWriter, customManifest(key, spec), { force: true });
  }

  get(key: ObjectKey): Promise<PostgresWriter> {
    return this.client.get(PostgresWriter, key);
  }

  withReason(key: ObjectKey, reason: string): Promise<PostgresWriter> {
    return withReason(this.cluster, PostgresWriter, key, reason);
  }

  async delete(key: ObjectKey): Promise<void> {
    await this.client.delete(PostgresWriter, key).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
    });
  }

  /** Waits until it is gone. */
  async gone(key: ObjectKey): Promise<void> {
    await eventually(`${key.name} is gone`, () => this.cluster.isGone(() => this.get(key)));
  }

  /** Every PostgresWriter of a namespace. */
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

  /** Waits until every PostgresWriter of the namespace has its row, and counts both sides: rows = resources. */
  async settled(namespace: string, tables: readonly string[], timeoutMs = 180_000): Promise<void> {
    let difference = '';
    const look = async (): Promise<boolean> => {
      const writers = await this.list(namespace);
      const unsettled = writers.find((writer) => !isReady(writer));
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

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopOperator('SIGKILL');
    // The whole server goes: no namespace need be deleted, and none could be while PostgresWriters wait for an operator.
    await this.cluster.disconnect();
    await this.database[Symbol.asyncDispose]();
    await this.#controlPlane.stop();
    await rm(this.folder, { recursive: true, force: true });
  }
}

const isReady = ({ metadata, status }: PostgresWriter): boolean => {
  const ready = findCondition(status?.conditions, 'Ready');
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
