/** PostgresWriter: a row in a table of a PostgreSQL database. */
import type { Registry } from 'prom-client';
import { PostgresWriter } from '../../api/index.ts';
import type { Gate } from '../../runtime/client/index.ts';
import { type Manager, predicates } from '../../runtime/index.ts';
import { type ControllerSettings, scopeOf } from '../controller-settings.ts';
import { InFlightCount, outsideUp } from '../outside/index.ts';
import { Database } from './database.ts';
import { connectionMetrics, statementMetrics } from './metrics.ts';
import type { DatabaseSettings } from './pool.ts';
import { hasWaitingWriter, PostgresWriterReconciler } from './postgres-writer-reconciler.ts';
import { parseTableName, tableText } from './statements.ts';
import { Tables } from './tables.ts';

export type { DatabaseSettings } from './pool.ts';

/**
 * The minimum of workers. Most of them wait for a statement that they share: with four workers, a statement would write at most four
 * rows.
 */
const minWorkers = 200;

/** The most that `freshMs` can be: by then a status write has enqueued its key. */
const maxFreshMs = 30_000;

/** The most that `missingMs` can be: enough to restore or rename a table in most cases. */
const maxMissingMs = 300_000;

/**
 * Adds the PostgresWriter controller to a manager. Each resync checks every row and restores what others have changed or deleted.
 *
 * @returns a function that closes the connections to the database. Call it after the last reconcile.
 */
export function addPostgresWriterController(
  manager: Manager,
  options: ControllerSettings & {
    readonly settings: DatabaseSettings;
    /** The tables that may be written to, with their schemas. Default: all. */
    readonly allowedTables?: readonly string[] | undefined;
    /** The gate that each statement must pass. */
    readonly gate?: Gate | undefined;
    readonly registry: Registry;
  },
): () => Promise<void> {
  const { settings, allowedTables, gate, events, registry, workers, resyncEveryMs } = options;
  const { log } = manager;
  const writers = manager.informer(PostgresWriter, scopeOf(options)).store;
  const inFlight = new InFlightCount();
  const database = new Database({ settings, log, gate });
  outsideUp(registry, 'postgres', { isDown: () => database.isDown, isAwaited: () => hasWaitingWriter(writers) });
  connectionMetrics(registry, database, settings.poolSize);
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
    predicate: predicates.ignoringConditionMessages,
    workers: Math.max(workers, minWorkers),
    resyncEveryMs,
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
  return () => database.close();
}
