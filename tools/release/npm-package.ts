/**
 * Builds the npm package of the controller runtime: the compiled code with its declarations, and a manifest that names
 * the packages that the runtime imports. `npm pack dist/package` and `npm publish ./dist/package` publish it.
 *
 *     node tools/release/npm-package.ts [FOLDER]     default: dist/package/
 *
 * There are no source maps: the compiled code is the source without its types, with the same lines and comments, so a
 * stack trace leads to readable code.
 */

import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { builtinModules } from 'node:module';
import { join, resolve } from 'node:path';
import { execa } from 'execa';

const repository = join(import.meta.dirname, '../..');

/** The package's name. The repository's own package.json, which is private, has another. */
export const packageName = '@echoperator/runtime';

/** The modules that can be imported from the package, by their path in src/runtime. All other modules are internals. */
export const entries = {
  '.': 'index',
  './client': 'client/index',
  './cache': 'cache/index',
  './controller': 'controller/index',
  './process': 'process/index',
  './kinds': 'kinds/index',
  './leader-election': 'leader-election/index',
  './testing': 'testing/index',
  './simulation': 'testing/simulation/index',
} as const;

/** The compiled runtime, in the package. */
const compiled = 'dist';

/** Only tests import this folder: who needs it installs the packages that it imports. */
const optionalFolder = join(compiled, 'testing');

/**
 * An application passes objects of these packages (a schema, a registry) to the runtime, so both must use the same copy:
 * the application's.
 */
const peers: readonly string[] = ['prom-client', 'typebox'];

/** The declarations use Node's types. An application in plain JavaScript does not need them. */
const typesOfNode = { '@types/node': '>=24' } as const;

/** The runtime imports a package that the repository's manifest does not name. */
export class ManifestError extends Error {
  override readonly name = 'ManifestError';
}

type Versions = Readonly<Record<string, string>>;

/** The fields of the repository's manifest that the package's manifest is made from. */
export interface RepositoryManifest {
  readonly version: string;
  readonly license: string;
  readonly repository: object;
  readonly engines: Versions;
  readonly dependencies: Versions;
  readonly devDependencies: Versions;
}

/** A compiled file, JavaScript or declarations, by its path in the package. */
export interface CompiledFile {
  readonly path: string;
  readonly text: string;
}

/** The packages that compiled code imports, without Node's own modules and relative imports. */
export function importedPackages(text: string): ReadonlySet<string> {
  const code = text.replaceAll(/^\s*(?:\/\*\*|\*|\/\/).*$/gm, '');
  const specifiers = [...code.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*(['"])([^'"\n]+)\1/g)].map(
    ([, , name = '']) => name,
  );
  const packages = specifiers
    .filter((name) => !name.startsWith('.') && !name.startsWith('node:') && !builtinModules.includes(name))
    .map((name) =>
      name
        .split('/')
        .slice(0, name.startsWith('@') ? 2 : 1)
        .join('/'),
    );
  return new Set(packages);
}

/**
 * The package's manifest. It names exactly the packages that the compiled runtime imports, in code or in types, each with
 * the versions that are compatible with the tested one.
 *
 * @throws ManifestError for an import that the repository's manifest does not name.
 */
export function runtimeManifest(repository: RepositoryManifest, files: readonly CompiledFile[]): object {
  const imports = (from: readonly CompiledFile[]): readonly string[] =>
    [...new Set(from.flatMap(({ text }) => [...importedPackages(text)]))].sort();
  const isOptional = ({ path }: CompiledFile): boolean => path.startsWith(optionalFolder);
  const required = imports(files.filter((file) => !isOptional(file)));
  const optional = imports(files.filter(isOptional)).filter((name) => !required.includes(name));

  const tested: Versions = { ...repository.devDependencies, ...repository.dependencies };
  const versions = (names: readonly string[]): Versions =>
    Object.fromEntries(
      names.map((name) => {
        const version = tested[name];
        if (version === undefined)
          throw new ManifestError(`src/runtime imports ${name}, which package.json does not name`);
        return [name, `^${version}`];
      }),
    );
  const { version, license, engines } = repository;
  return {
    name: packageName,
    version,
    description: 'A Kubernetes controller runtime for TypeScript: client, cache, work queue, controllers, manager',
    keywords: ['kubernetes', 'operator', 'controller', 'controller-runtime', 'crd', 'informer', 'reconcile'],
    license,
    homepage: 'https://github.com/echoperator/echoperator/blob/main/docs/writing-an-operator.md',
    repository: repository.repository,
    type: 'module',
    sideEffects: false,
    engines,
    files: [compiled],
    exports: Object.fromEntries(
      Object.entries(entries).map(([entry, module]) => [
        entry,
        { types: `./${compiled}/${module}.d.ts`, default: `./${compiled}/${module}.js` },
      ]),
    ),
    dependencies: versions(required.filter((each) => !peers.includes(each))),
    peerDependencies: {
      ...versions(required.filter((each) => peers.includes(each))),
      ...versions(optional),
      ...typesOfNode,
    },
    peerDependenciesMeta: Object.fromEntries(
      [...optional, ...Object.keys(typesOfNode)].map((each) => [each, { optional: true }]),
    ),
  };
}

/**
 * Compiles the runtime and writes the package.
 *
 * @param folder is emptied first.
 * @throws ManifestError; execa's error, with the compiler's output, if the runtime does not compile.
 */
export async function packageRuntime(folder = join(repository, 'dist/package')): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await compileRuntime(join(folder, compiled));
  const manifest = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8')) as RepositoryManifest;
  const runtime = runtimeManifest(manifest, await compiledFiles(folder));
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(runtime, null, 2)}\n`);
  await cp(join(repository, 'LICENSE'), join(folder, 'LICENSE'));
  await cp(join(repository, 'src/runtime/README.md'), join(folder, 'README.md'));
}

/** Writes the runtime's JavaScript and declarations. @throws execa's error, with the compiler's output, if it fails. */
export async function compileRuntime(folder: string): Promise<void> {
  const tsc = join(repository, 'node_modules/.bin/tsc');
  await execa(tsc, ['--project', join(repository, 'tsconfig.runtime.json'), '--outDir', folder]);
}

async function compiledFiles(folder: string): Promise<readonly CompiledFile[]> {
  const paths = (await readdir(folder, { recursive: true })).filter((path) => /\.(?:js|d\.ts)$/.test(path));
  return Promise.all(paths.map(async (path) => ({ path, text: await readFile(join(folder, path), 'utf8') })));
}

// Without a top-level await: jest requires what its set-up imports.
if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  void packageRuntime(folder === undefined ? undefined : resolve(folder));
}
