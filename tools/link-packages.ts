import { existsSync } from 'node:fs';
import { mkdir, readdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';

const repository = join(import.meta.dirname, '..');
const scope = '@echoperator';

/**
 * Links the installed packages into `node_modules` of a folder with other sources of the project. If that folder has
 * `packages/`, the project's own packages come from there, so that no code imports the packages of this repository.
 */
export async function linkPackages(folder: string): Promise<void> {
  const installed = join(repository, 'node_modules');
  const own = join(folder, 'packages');
  const names = (await readdir(installed)).filter((name) => name !== scope);
  await mkdir(join(folder, 'node_modules', scope), { recursive: true });
  await Promise.all(names.map((name) => symlink(join(installed, name), join(folder, 'node_modules', name))));
  if (!existsSync(own)) return;
  for (const name of await readdir(own)) await symlink(join(own, name), join(folder, 'node_modules', scope, name));
}
