import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Returns a command that runs a program so that the kernel kills it when its parent ends, even by SIGKILL. The program
 * has the command's process id. On other systems than Linux, the program outlives a killed parent.
 */
export function dieWithParent(program: string, args: readonly string[]): readonly [string, readonly string[]] {
  return process.platform === 'linux' ? ['setpriv', ['--pdeathsig', 'KILL', '--', program, ...args]] : [program, args];
}

/**
 * Writes a wrapper for each program that starts it with {@link dieWithParent}.
 *
 * @returns the folder of the wrappers, named like the programs
 */
export async function wrapToDieWithParent(folder: string, programs: Readonly<Record<string, string>>): Promise<string> {
  const wrappers = join(folder, 'bin');
  await mkdir(wrappers, { recursive: true });
  for (const [name, path] of Object.entries(programs)) {
    const wrapper = join(wrappers, name);
    const [launcher, args] = dieWithParent(path, []);
    const command = [launcher, ...args].map((word) => `'${word}'`).join(' ');
    await writeFile(wrapper, `#!/bin/sh\nexec ${command} "$@"\n`);
    await chmod(wrapper, 0o755);
  }
  return wrappers;
}
