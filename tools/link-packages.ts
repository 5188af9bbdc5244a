import { access, mkdir, readdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';

const repository = join(import.meta.dirname, '..');
const scope = '@echoperator';

/**
 * Links the installed packages into `node_modules` of a folder that has other sources of the project. The project's own
 * packages are those in `packages/` of that folder, if it has them, so that nothing imports the repository's.
 */
export async function linkPackages(folder: string): Promise<void> {
  const installed = join(repository, 'node_modules');
  const own = join(folder, 'packages');
  const names = (await readdir(installed)).filter((name) => name !== scope);
  await mkdir(join(folder, 'node_modules', scope), { recursive: true });
  await Promise.all(names.map((name) => symlink(join(installed, name), join(folder, 'node_modules', name))));
  for (const name of await foldersIn(own)) await symlink(join(own, name), join(folder, 'node_modules', scope, name));
}

const foldersIn = async (folder: string): Promise<readonly string[]> =>
  access(folder).then(
    () => readdir(folder),
    () => [],
  );
