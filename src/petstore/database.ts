import { DatabaseSync } from 'node:sqlite';

/** What each version of the schema adds to the one before. Once released, one stays as it is: files of any age are opened. */
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

/** Another process that has the file is waited for so long. */
const busyTimeoutMs = 5000;

/** The file cannot be used as a database of this program. */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
}

/**
 * Opens the file, or makes it, and brings its schema up to date.
 *
 * What is committed has reached the disk: the write-ahead log is synchronised at each commit (synchronous=FULL), so neither a
 * kill nor a loss of power takes it back (https://www.sqlite.org/pragma.html#pragma_synchronous).
 *
 * @throws DatabaseError where it cannot be opened, keeps no write-ahead log (some network file systems), or was written by a
 *   newer version of this program.
 */
export function openDatabase(path: string): DatabaseSync {
  const database = opened(path, { timeout: busyTimeoutMs });
  try {
    const [mode] = Object.values(database.prepare('PRAGMA journal_mode = WAL').get() ?? {});
    if (mode !== 'wal') throw new DatabaseError(`${path}: keeps no write-ahead log, its journal is ${mode}`);
    database.exec('PRAGMA synchronous = FULL');
    migrate(path, database);
    return database;
  } catch (error) {
    database.close();
    if (error instanceof DatabaseError) throw error;
    throw new DatabaseError(`${path}: cannot be used as a database: ${String(error)}`, { cause: error });
  }
}

/** A second connection to a file that is open already, which sees the state of one moment for as long as a query runs. */
export function openReader(path: string): DatabaseSync {
  return opened(path, { readOnly: true, timeout: busyTimeoutMs });
}

/**
 * Does all of the work, or none of it.
 *
 * @throws whatever the work throws, and the database's own error where it cannot be committed.
 */
export function transact<T>(database: DatabaseSync, work: () => T): T {
  database.exec('BEGIN IMMEDIATE');
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    // Some errors, as a full disk, have ended the transaction already.
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
        `${path}: its schema is ${version}, and this program knows ${migrations.length} at the most`,
      );
    }
    for (const migration of migrations.slice(Number(version))) database.exec(migration);
    database.exec(`PRAGMA user_version = ${migrations.length}`);
  });
}
