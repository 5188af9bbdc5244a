import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';

/** SQLite's result code for a database that is locked. */
const sqliteBusy = 5;

const pollMs = 200;

/**
 * A lock between processes, which the operating system releases when its holder ends, even by SIGKILL. It is a lock on
 * a file. Node has no API for file locks, but Node's SQLite takes one, on Linux and on macOS.
 *
 * Also excludes a second holder in the same process. Assumes a file system with locks; NFS has them if the server
 * supports them.
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
    const lock = new ExclusiveLock(database);
    if (!existsSync(file)) {
      // The last holder removed the file after it was opened here. A lock on the removed file excludes nobody.
      lock[Symbol.dispose]();
      return ExclusiveLock.tryAcquire(file, purpose);
    }
    writeFileSync(holderFile(file), `process ${process.pid}, ${purpose}\n`);
    return lock;
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

export interface LockOptions {
  /** The lock file. Created if it is missing, with its folder. */
  readonly lockFile: string;
  /** Shown to waiting processes. */
  readonly purpose: string;
  /** Called when a wait begins and when the holder changes. Default: prints a line to standard error. */
  readonly onWait?: (holder: string) => void;
  /** Aborts the wait, not the action. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs an action while no other process holds the lock. Removes the lock file afterwards.
 *
 * @throws the signal's reason
 */
export async function withExclusiveLock<T>(options: LockOptions, action: () => Promise<T>): Promise<T> {
  using _lock = await acquire(options, async () => false);
  try {
    return await action();
  } finally {
    // Safe while the lock is held, because waiting processes open the file again for each attempt.
    for (const file of [options.lockFile, holderFile(options.lockFile)]) await rm(file, { force: true });
  }
}

/**
 * Runs an action that is needed once, for example a build, in one process at a time. Waits while another process holds
 * the lock, but returns as soon as the action is done, no matter which process did it.
 *
 * @param isDone called before each attempt to get the lock, and once more with the lock
 * @throws the signal's reason
 */
export async function runOnce(
  { isDone, ...options }: LockOptions & { readonly isDone: () => Promise<boolean> },
  action: () => Promise<void>,
): Promise<void> {
  using lock = await acquire(options, isDone);
  if (lock !== undefined && !(await isDone())) await action();
}

/** Waits for the lock. @returns undefined if `isDone` returned true before the lock was free */
async function acquire(
  { lockFile, purpose, onWait = printWait, signal }: LockOptions,
  isDone: () => Promise<boolean>,
): Promise<ExclusiveLock | undefined> {
  await mkdir(dirname(lockFile), { recursive: true });
  let waitingFor: string | undefined;
  while (!(await isDone())) {
    signal?.throwIfAborted();
    const lock = ExclusiveLock.tryAcquire(lockFile, purpose);
    if (lock !== undefined) return lock;
    const holder = ExclusiveLock.lastHolder(lockFile);
    if (holder !== waitingFor) onWait(holder);
    waitingFor = holder;
    await delay(pollMs, undefined, { signal });
  }
  return undefined;
}

function printWait(holder: string): void {
  process.stderr.write(`waiting for ${holder}\n`);
}

function holderFile(file: string): string {
  return `${file}-holder`;
}
