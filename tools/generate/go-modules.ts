import { join } from 'node:path';
import { execa } from 'execa';

const pinnedModules = join(import.meta.dirname, '../programs/kubernetes');

/**
 * Returns the folders of Go modules: of `path@version`, or of a path in the version that tools/programs/kubernetes pins.
 * Go downloads modules that its cache lacks.
 *
 * @throws Error if Go names no folder of a module; ExecaError with Go's error output
 */
export async function goModuleFolders<Name extends string>(
  modules: readonly Name[],
): Promise<Readonly<Record<Name, string>>> {
  const { stdout } = await execa('go', ['mod', 'download', '-json', ...modules], {
    cwd: pinnedModules,
    env: { GOTOOLCHAIN: 'local', GOWORK: 'off', GOFLAGS: '' },
  });
  const found = stdout.matchAll(/"Path": "([^"]+)"[^}]*?"Version": "([^"]+)"[^}]*?"Dir": "([^"]+)"/g);
  const folders = new Map(
    [...found].flatMap(([, path = '', version = '', folder = '']) => [
      [path, folder],
      [`${path}@${version}`, folder],
    ]),
  );
  const missing = modules.find((module) => !folders.has(module));
  if (missing !== undefined) throw new Error(`go mod download names no folder of ${missing}`);
  return Object.fromEntries(folders) as Record<Name, string>;
}
