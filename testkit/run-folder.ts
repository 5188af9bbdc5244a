import { mkdir, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Creates a folder for this process, which removes it, and removes those of killed processes.
 *
 * @param name what the folder is for: part of its name
 */
export async function makeRunFolder(name: string): Promise<string> {
  const prefix = `echoperator-${name}-`;
  for (const entry of await readdir(tmpdir())) {
    const pid = entry.startsWith(prefix) ? Number(entry.slice(prefix.length)) : 0;
    if (pid > 0 && !isAlive(pid)) await rm(join(tmpdir(), entry), { recursive: true, force: true });
  }
  const folder = join(tmpdir(), `${prefix}${process.pid}`);
  // PostgreSQL, which runs as another user, must be able to enter it.
  await mkdir(folder, { recursive: true, mode: 0o755 });
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
