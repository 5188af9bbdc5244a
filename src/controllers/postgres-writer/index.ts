/** PostgresWriter: a row in a table of a PostgreSQL database. */
import { Counter, type Registry } from 'prom-client';
import { PostgresWriter } from '../../api/index.ts';
import type { Gate } from '../../runtime/client/index.ts';
import { type Manager, predicates } from '../../runtime/index.ts';
import { type ControllerSettings, scopeOf } from '../controller-settings.ts';
import { InFlightCount, outsideUp } from '../outside/index.ts';
import { Database } from './database.ts';
import type { DatabaseSettings } from './pool.ts';
import { PostgresWriterReconciler } from './postgres-writer-reconciler.ts';
import { parseTableName, type Statement, tableText } from './statements.ts';
import { Tables } from './tables.ts';

export type { DatabaseSettings } from './pool.ts';

/**
 * Workers at the least. Most of them wait at any time, many for one statement: with four, a statement would never write
 * more than four rows.
 */
const minWorkers = 200;

/** The follow-up of a write of ours comes back by then. */
const maxFreshMs = 30_000;

/** Whoever restores a table, or has renamed it, needs no longer, most often. */
const maxMissingMs = 300_000;

/**
 * Adds the PostgresWriter controller to a manager. With each resync every row is looked at: what others have changed or
 * deleted is back then.
 *
 * @returns ends the connections to the database. To be called when nothing is reconciled any more.
 */
export function addPostgresWriterController(
  manager: Manager,
  options: ControllerSettings & {
    readonly settings: DatabaseSettings;
    /** The only tables that may be written to, with their schemas. Undefined: every one. */
    readonly allowedTables?: readonly string[] | undefined;
    /** Passed by each statement. */
    readonly gate?: Gate | undefined;
    readonly registry: Registry;
  },
): () => Promise<void> {
  const { settings, allowedTables, gate, events, registry, workers, resyncEveryMs } = options;
  const { log } = manager;
  const writers = manager.informer(PostgresWriter, scopeOf(options)).store;
  const inFlight = new InFlightCount();
  const database = new Database({ settings, log, gate, onChange: outsideUp(registry, 'postgres') });
  const tables = new Tables({ database: statementMetrics(registry, database), inFlight });
  const reconciler = new PostgresWriterReconciler({
    writers,
    tables,
    inFlight,
    events,
    allowedTables: allowedTables && new Set(allowedTables.map((text) => tableText(parseTableName(text)))),
    freshMs: Math.min(maxFreshMs, resyncEveryMs / 4),
    missingMs: Math.min(maxMissingMs, resyncEveryMs),
  });
  manager.controller(PostgresWriter, {
    // Not its status, which is our own word. What others do to that, or to our finalizer, the resync mends.
    predicate: predicates.generationChanged,
    workers: Math.max(workers, minWorkers),
    resyncEveryMs,
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
  return () => database.close();
}

/** Counts the statements that are asked of a database, by how they end. */
function statementMetrics(registry: Registry, database: Pick<Database, 'query'>): Pick<Database, 'query'> {
  const statements = new Counter({
    name: 'echoperator_postgres_statements_total',
    help: 'Statements asked of the database, by how they ended. Those that a circuit refused at once are errors too.',
    labelNames: ['result'],
    registers: [registry],
  });
  for (const result of ['success', 'error']) statements.inc({ result }, 0);
  return {
    query: async <R extends object>(statement: Statement): Promise<readonly R[]> => {
      try {
        const rows = await database.query<R>(statement);
        statements.inc({ result: 'success' });
        return rows;
      } catch (error) {
        statements.inc({ result: 'error' });
        throw error;
      }
    },
  };
}
