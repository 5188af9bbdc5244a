import { access, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { ensureDebianPackages } from '../tools/debian.ts';

/** libfaketime is Debian's, and preloading is Linux's. */
export const canFakeClock = process.platform === 'linux';

/** Debian's package is installed where it is missing. */
export const ensureFakeClock = (): Promise<void> => ensureDebianPackages(['libfaketime']);

/** The environment of a process whose wall clock a test sets, in libfaketime's words, by writing to a file. */
export async function fakeClock(file: string): Promise<Readonly<Record<string, string>>> {
  const { stdout: files } = await execa('dpkg-query', ['--listfiles', 'libfaketime']);
  const library = files.split('\n').find((line) => line.endsWith('/libfaketimeMT.so.1'));
  return {
    LD_PRELOAD: String(library),
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
    // The clock that timers run by never jumps.
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  };
}

const sharedMemory = '/dev/shm';

/** Removes what libfaketime shares between the processes of a program, and leaves behind where one is killed. */
export async function removeClocksOfTheDead(): Promise<void> {
  if (!canFakeClock) return;
  for (const file of await readdir(sharedMemory)) {
    const pid = /^(?:faketime_shm|sem\.faketime_sem)_(\d+)$/.exec(file)?.[1];
    if (pid === undefined) continue;
    const lives = await access(`/proc/${pid}`).then(
      () => true,
      () => false,
    );
    if (!lives) await rm(join(sharedMemory, file), { force: true });
  }
}
