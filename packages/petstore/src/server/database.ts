import { DatabaseSync } from 'node:sqlite';

/**
 * One migration per schema version. A released migration never changes, because the pet store opens files of any age.
 */
const migrations: readonly string[] = [
  `CREATE TABLE pets (
     id TEXT PRIMARY KEY,
     name TEXT NOT NULL,
     type INTEGER NOT NULL,
     birthday TEXT NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX pets_by_name ON pets (name);
   CREATE INDEX pets_by_birthday ON pets (birthday);
   CREATE TABLE requests (
     id TEXT PRIMARY KEY,
     asked TEXT NOT NULL,
     answer TEXT NOT NULL,
     expires_at INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX requests_by_expiry ON requests (expires_at);
   CREATE TABLE settings (
     name TEXT PRIMARY KEY,
     value TEXT NOT NULL
   ) STRICT, WITHOUT ROWID;`,
];

/** How long SQLite waits for another process that has locked the file. */
const busyTimeoutMs = 5000;

/** The file cannot be used as the pet store's database. */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
}

/**
 * Opens the file, creates it if it is missing, and migrates its schema.
 *
 * A committed transaction is on the disk: SQLite syncs the write-ahead log at each commit (synchronous=FULL), so a
 * commit survives a kill and a loss of power (https://www.sqlite.org/pragma.html#pragma_synchronous).
 *
 * @throws DatabaseError if the file cannot be opened, its file system supports no write-ahead log (some network file
 *   systems), or a newer version of this program wrote it.
 */
export function openDatabase(path: string): DatabaseSync {
  const database = opened(path, { timeout: busyTimeoutMs });
  try {
    const [mode] = Object.values(database.prepare('PRAGMA journal_mode = WAL').get() ?? {});
    if (mode !== 'wal')
      throw new DatabaseError(`${path}: no write-ahead log on this file system (journal_mode is ${mode})`);
    database.exec('PRAGMA synchronous = FULL');
    migrate(path, database);
    return database;
  } catch (error) {
    database.close();
    if (error instanceof DatabaseError) throw error;
    throw new DatabaseError(`${path}: cannot be used as a database: ${String(error)}`, { cause: error });
  }
}

/** Opens another, read-only connection to an open database. A query on it sees one snapshot until it ends. */
export function openReader(path: string): DatabaseSync {
  return opened(path, { readOnly: true, timeout: busyTimeoutMs });
}

/**
 * Runs `work` in a transaction: commits when it returns, rolls back when it throws.
 *
 * @throws what `work` throws; SQLite's error if the commit fails.
 */
export function transact<T>(database: DatabaseSync, work: () => T): T {
  database.exec('BEGIN IMMEDIATE');
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    // SQLite itself rolls back after some errors, for example a full disk.
    if (database.isTransaction) database.exec('ROLLBACK');
    throw error;
  }
}

function opened(path: string, options: { readonly readOnly?: boolean; readonly timeout: number }): DatabaseSync {
  try {
    return new DatabaseSync(path, options);
  } catch (cause) {
    throw new DatabaseError(`${path}: cannot be opened: ${String(cause)}`, { cause });
  }
}

function migrate(path: string, database: DatabaseSync): void {
  transact(database, () => {
    const [version = 0] = Object.values(database.prepare('PRAGMA user_version').get() ?? {});
    if (Number(version) > migrations.length) {
      throw new DatabaseError(
        `${path}: schema version ${version} is newer than ${migrations.length}, the latest that this program knows`,
      );
    }
    for (const migration of migrations.slice(Number(version))) database.exec(migration);
    database.exec(`PRAGMA user_version = ${migrations.length}`);
  });
}
