import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ExclusiveLock } from '../exclusive-lock.ts';
import { standardDisplay } from '../progress.ts';

const pollMs = 200;

/**
 * Runs an action that nobody else may run at the same time, and leaves no lock file behind.
 *
 * @param purpose what the action does, for those who wait
 * @param signal ends the wait, not the action
 */
export async function exclusively<T>(
  lockFile: string,
  purpose: string,
  signal: AbortSignal | undefined,
  action: () => Promise<T>,
): Promise<T> {
  using _lock = await acquire(lockFile, purpose, signal);
  try {
    return await action();
  } finally {
    // While it is held: those who wait open the file anew each time.
    for (const file of [lockFile, `${lockFile}-holder`]) await rm(file, { force: true });
  }
}

async function acquire(lockFile: string, purpose: string, signal: AbortSignal | undefined): Promise<ExclusiveLock> {
  await mkdir(dirname(lockFile), { recursive: true });
  for (let told = false; ; ) {
    const lock = ExclusiveLock.tryAcquire(lockFile, purpose);
    // Its last holder may have removed the file after it was opened here: a lock on a file that nobody else sees.
    if (lock !== undefined && existsSync(lockFile)) return lock;
    lock?.[Symbol.dispose]();
    if (!told) standardDisplay().line(`waiting for ${ExclusiveLock.lastHolder(lockFile)}`);
    told = true;
    await delay(pollMs, undefined, { signal });
  }
}
