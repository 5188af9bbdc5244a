import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ExclusiveLock } from '../exclusive-lock.ts';
import { standardDisplay } from '../progress.ts';

const pollMs = 200;

/**
 * Runs an action while no other process holds the lock. Removes the lock file afterwards.
 *
 * @param purpose shown to waiting processes
 * @param signal aborts the wait, not the action
 */
export async function withExclusiveLock<T>(
  lockFile: string,
  purpose: string,
  signal: AbortSignal | undefined,
  action: () => Promise<T>,
): Promise<T> {
  using _lock = await acquire(lockFile, purpose, signal);
  try {
    return await action();
  } finally {
    // Safe while the lock is held, because waiting processes open the file again for each attempt.
    for (const file of [lockFile, `${lockFile}-holder`]) await rm(file, { force: true });
  }
}

async function acquire(lockFile: string, purpose: string, signal: AbortSignal | undefined): Promise<ExclusiveLock> {
  await mkdir(dirname(lockFile), { recursive: true });
  for (let hasNotified = false; ; ) {
    const lock = ExclusiveLock.tryAcquire(lockFile, purpose);
    // The last holder may have removed the file after it was opened here. Such a lock excludes nobody.
    if (lock !== undefined && existsSync(lockFile)) return lock;
    lock?.[Symbol.dispose]();
    if (!hasNotified) standardDisplay().line(`waiting for ${ExclusiveLock.lastHolder(lockFile)}`);
    hasNotified = true;
    await delay(pollMs, undefined, { signal });
  }
}
