import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Wraps programs so that the kernel ends them when the process that started them ends, however it ends. Returns the
 * folder of the wrappers, which have the programs' names. On other systems than Linux they are only found there.
 */
export async function wrapToDieWithParent(folder: string, programs: Readonly<Record<string, string>>): Promise<string> {
  const wrappers = join(folder, 'bin');
  await mkdir(wrappers, { recursive: true });
  const launch = process.platform === 'linux' ? 'exec setpriv --pdeathsig KILL --' : 'exec';
  for (const [name, path] of Object.entries(programs)) {
    const wrapper = join(wrappers, name);
    await writeFile(wrapper, `#!/bin/sh\n${launch} '${path}' "$@"\n`);
    await chmod(wrapper, 0o755);
  }
  return wrappers;
}
