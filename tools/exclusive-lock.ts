import { readFileSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

/** SQLite's result code for a database that is locked. */
const sqliteBusy = 5;

/**
 * A lock between processes, which the operating system releases when its holder ends, even by SIGKILL. It is a lock on a file. Node has
 * no API for file locks, but Node's SQLite takes one, on Linux and on macOS.
 *
 * Also excludes a second holder in the same process. Assumes a file system with locks; NFS has them if the server supports them.
 */
export class ExclusiveLock implements Disposable {
  readonly #database: DatabaseSync;

  private constructor(database: DatabaseSync) {
    this.#database = database;
  }

  /**
   * Acquires the lock if it is free. Does not wait.
   *
   * @param file created if it is missing; its folder must exist
   * @param purpose shown to waiting processes
   * @returns undefined if another holder has the lock
   */
  static tryAcquire(file: string, purpose: string): ExclusiveLock | undefined {
    const database = new DatabaseSync(file, { timeout: 0 });
    try {
      database.exec('PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE');
    } catch (error) {
      database.close();
      if ((error as { errcode?: unknown }).errcode === sqliteBusy) return undefined;
      throw new Error(`cannot lock ${file}`, { cause: error });
    }
    writeFileSync(holderFile(file), `process ${process.pid}, ${purpose}\n`);
    return new ExclusiveLock(database);
  }

  /** Describes the last holder of the lock. It may have released the lock since, so use this only in messages. */
  static lastHolder(file: string): string {
    try {
      return readFileSync(holderFile(file), 'utf8').trim();
    } catch {
      return 'another process';
    }
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }
}

function holderFile(file: string): string {
  return `${file}-holder`;
}
