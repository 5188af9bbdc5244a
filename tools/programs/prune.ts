import { readdir, readlink, rm, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';

/** How long what nobody asked for stays: another branch of a checkout asks for other keys, and comes back. */
const unusedForMs = 14 * 24 * 60 * 60 * 1000;

const folderOfAKey = /^[a-z0-9-]+-[0-9a-f]{16}$/;

/**
 * Removes the folders of keys that nobody has asked for (the folder's time of change is the last time that somebody
 * did) for two weeks and that no running program is from. What runs is known on Linux alone.
 *
 * @param now milliseconds since the epoch
 */
export async function pruneUnused(cache: string, now: number): Promise<void> {
  const running = await runningPrograms();
  for (const name of await readdir(cache)) {
    const folder = join(cache, name);
    if (!folderOfAKey.test(name)) continue;
    if (now - (await stat(folder)).mtimeMs < unusedForMs) continue;
    if (running.some((program) => program.startsWith(folder + sep))) continue;
    await rm(folder, { recursive: true, force: true });
  }
}

async function runningPrograms(): Promise<readonly string[]> {
  const processes = (await listOrNothing('/proc')).filter((name) => /^\d+$/.test(name));
  const programs = await Promise.all(processes.map((id) => readlink(`/proc/${id}/exe`).catch(() => '')));
  return programs.filter((program) => program !== '');
}

async function listOrNothing(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch {
    return [];
  }
}
