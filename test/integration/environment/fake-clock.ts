import { execa } from 'execa';
import { ensureDebianPackages } from '../../../tools/debian.ts';

/** libfaketime is Debian's, and preloading is Linux's. */
export const canFakeClock = process.platform === 'linux';

/** The environment of a process whose wall clock a test sets, in libfaketime's words, by writing to a file. */
export async function fakeClock(file: string): Promise<Readonly<Record<string, string>>> {
  await ensureDebianPackages(['libfaketime']);
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
