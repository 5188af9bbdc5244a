import { execa } from 'execa';
import { ensureDebianPackages } from '../../../../tools/debian.ts';

/**
 * The environment of a process whose wall clock a test sets by writing to a file: libfaketime's, which is Debian's and
 * Linux's. Undefined on other systems. The clock that timers run by never jumps.
 */
export async function fakeClock(file: string): Promise<Readonly<Record<string, string>> | undefined> {
  if (process.platform !== 'linux') return undefined;
  await ensureDebianPackages(['libfaketime']);
  const { stdout: files } = await execa('dpkg-query', ['--listfiles', 'libfaketime']);
  const library = files.split('\n').find((line) => line.endsWith('/libfaketimeMT.so.1'));
  return {
    LD_PRELOAD: String(library),
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  };
}
