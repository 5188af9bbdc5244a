import { mkdir, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const prefix = 'echoperator-integration-';

/** Creates a folder for this run. Removes the folders of killed runs. */
export async function makeRunFolder(): Promise<string> {
  for (const name of await readdir(tmpdir())) {
    const pid = name.startsWith(prefix) ? Number(name.slice(prefix.length)) : 0;
    if (pid > 0 && !isAlive(pid)) await rm(join(tmpdir(), name), { recursive: true, force: true });
  }
  const folder = join(tmpdir(), `${prefix}${process.pid}`);
  await mkdir(folder, { recursive: true });
  return folder;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
