import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * The command that runs a program so that the kernel kills it when the process that started it ends, however that ends. The
 * program keeps the process id. Linux only: elsewhere the program outlives a parent that is killed.
 */
export function dieWithParent(program: string, args: readonly string[]): readonly [string, readonly string[]] {
  return process.platform === 'linux' ? ['setpriv', ['--pdeathsig', 'KILL', '--', program, ...args]] : [program, args];
}

/** Wraps programs so that each is started as by {@link dieWithParent}. Returns the folder of the wrappers, which have the programs' names. */
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
