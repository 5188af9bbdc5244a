import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { Database } from './database.ts';
import type { Statement } from './statements.ts';
import type { Tables } from './tables.ts';

/** In seconds: a statement takes a millisecond, and at most its timeout and the wait for a connection. */
const buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Counts the statements by their results, and measures them. */
export function statementMetrics(registry: Registry, database: Pick<Database, 'query'>): Pick<Database, 'query'> {
  const statements = new Counter({
    name: 'echoperator_postgres_statements_total',
    help: 'Statements for the database, by result. Those that the circuit refused at once count as errors.',
    labelNames: ['result'],
    registers: [registry],
  });
  const seconds = new Histogram({
    name: 'echoperator_postgres_statement_seconds',
    help: 'Duration of the statements, including the wait for a connection.',
    buckets,
    registers: [registry],
  });
  for (const result of ['success', 'error']) statements.inc({ result }, 0);
  return {
    query: async <R extends object>(statement: Statement): Promise<readonly R[]> => {
      const startedAtMs = performance.now();
      try {
        const rows = await database.query<R>(statement);
        statements.inc({ result: 'success' });
        return rows;
      } catch (error) {
        statements.inc({ result: 'error' });
        throw error;
      } finally {
        seconds.observe((performance.now() - startedAtMs) / 1000);
      }
    },
  };
}

/** Reads the state of the connection pool at each scrape. */
export function connectionMetrics(
  registry: Registry,
  {
    database,
    tables,
    poolSize,
  }: {
    readonly database: Pick<Database, 'connections'>;
    readonly tables: Pick<Tables, 'waitingStatements'>;
    readonly poolSize: number;
  },
): void {
  const registers = [registry];
  new Gauge({
    name: 'echoperator_postgres_connections',
    help: 'Connections to the database, by state: idle or in_use.',
    labelNames: ['state'],
    registers,
    collect() {
      const { idle, inUse } = database.connections();
      this.set({ state: 'idle' }, idle);
      this.set({ state: 'in_use' }, inUse);
    },
  });
  new Gauge({
    name: 'echoperator_postgres_waiting_statements',
    help: 'Statements that wait for a connection, or for others on their table.',
    registers,
    collect() {
      this.set(database.connections().waitingStatements + tables.waitingStatements);
    },
  });
  new Gauge({
    name: 'echoperator_postgres_max_connections',
    help: 'The most connections to the database, PSQL_POOL_SIZE.',
    registers,
  }).set(poolSize);
}
