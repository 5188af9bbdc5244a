import { readFileSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

/** SQLite's result code for a database that somebody else has locked. */
const sqliteBusy = 5;

/**
 * A lock between processes that ends with its holder, also when that is killed with -9: the operating system's own
 * lock on a file. Node has no call for it, but SQLite, which is part of Node, takes one on Linux and on macOS alike.
 *
 * Assumes a file system with locks (a home folder over NFS has them where its server does). It excludes a second
 * holder in the same process too.
 */
export class ExclusiveLock implements Disposable {
  readonly #database: DatabaseSync;

  private constructor(database: DatabaseSync) {
    this.#database = database;
  }

  /**
   * Takes the lock if it is free; does not wait.
   *
   * @param file made if it is missing; its folder must be there
   * @param purpose what the holder does, for those who wait
   */
  static tryAcquire(file: string, purpose: string): ExclusiveLock | undefined {
    const database = new DatabaseSync(file, { timeout: 0 });
    try {
      database.exec('PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE');
    } catch (error) {
      database.close();
      if ((error as { errcode?: unknown }).errcode === sqliteBusy) return undefined;
      throw new Error(`can't lock ${file}`, { cause: error });
    }
    writeFileSync(holderFile(file), `process ${process.pid}, ${purpose}\n`);
    return new ExclusiveLock(database);
  }

  /** What the last holder of the lock said of itself. It may have ended since: good for a message, not for a decision. */
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
