import { access, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { ensureDebianPackages } from '../tools/debian.ts';

/** libfaketime comes from a Debian package and needs LD_PRELOAD, so this works only on Linux. */
export const canFakeClock = process.platform === 'linux';

/** Installs Debian's libfaketime if it is missing. */
export const ensureFakeClock = (): Promise<void> => ensureDebianPackages(['libfaketime']);

/**
 * Returns the environment of a process whose wall clock a test sets by writing to a file, in the format of libfaketime.
 */
export async function fakeClock(file: string): Promise<Readonly<Record<string, string>>> {
  const { stdout: files } = await execa('dpkg-query', ['--listfiles', 'libfaketime']);
  const library = files.split('\n').find((line) => line.endsWith('/libfaketimeMT.so.1'));
  return {
    LD_PRELOAD: String(library),
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
    // Timers use the monotonic clock, which must not jump.
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  };
}

const sharedMemory = '/dev/shm';

/** Removes the shared memory that libfaketime leaves behind when a process is killed. */
export async function removeLeftoverClocks(): Promise<void> {
  if (!canFakeClock) return;
  for (const file of await readdir(sharedMemory)) {
    const pid = /^(?:faketime_shm|sem\.faketime_sem)_(\d+)$/.exec(file)?.[1];
    if (pid === undefined) continue;
    const isAlive = await access(`/proc/${pid}`).then(
      () => true,
      () => false,
    );
    if (!isAlive) await rm(join(sharedMemory, file), { force: true });
  }
}
