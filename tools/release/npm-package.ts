/**
 * Builds the npm package of the controller runtime: the compiled code, its types, and a manifest that depends only on what the runtime
 * imports. Pass the folder to `npm pack` or `npm publish`.
 *
 *     node tools/release/npm-package.ts [FOLDER]     default: dist/package/
 *
 * There are no source maps: the compiled code keeps its lines and comments, so a stack trace points to readable code.
 */
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { builtinModules } from 'node:module';
import { join, resolve } from 'node:path';
import { execa } from 'execa';

const repository = join(import.meta.dirname, '../..');

/** The package's entry points and their modules. */
const entries = { './runtime': './runtime/index', './runtime/testing': './runtime/testing/index' } as const;

/** Only tests import this folder, so the packages that it imports are optional peers. */
const optionalFolder = join('runtime', 'testing');

/** An application passes objects of these packages to the runtime (a schema, a registry), so both must use the same copy. */
const peers: readonly string[] = ['prom-client', 'typebox'];

/** The declarations use Node's types. An application in plain JavaScript does not need them. */
const typesOfNode = { '@types/node': '>=24' } as const;

/** The runtime imports a package that the repository's manifest does not contain. */
export class ManifestError extends Error {
  override readonly name = 'ManifestError';
}

type Versions = Readonly<Record<string, string>>;

/** The part of the repository's manifest that the package's manifest is made from. */
export interface RepositoryManifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly repository: object;
  readonly engines: Versions;
  readonly dependencies: Versions;
  readonly devDependencies: Versions;
}

/** A compiled file, JavaScript or declarations, with its path in the package. */
export interface CompiledFile {
  readonly path: string;
  readonly text: string;
}

/** Returns the packages that compiled code imports, without Node's modules and relative imports. */
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
 * Returns the package's manifest. It depends on exactly the packages that the compiled code or its types import, in versions compatible
 * with the tested one.
 *
 * @throws ManifestError for an import that the repository's manifest does not contain
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
        if (version === undefined) throw new ManifestError(`src/runtime imports ${name}, which is not in package.json`);
        return [name, `^${version}`];
      }),
    );
  const { name, version, license, engines } = repository;
  return {
    name,
    version,
    description: 'A Kubernetes controller runtime for TypeScript: client, cache, work queue, controllers, manager',
    keywords: ['kubernetes', 'operator', 'controller', 'controller-runtime', 'crd', 'informer', 'reconcile'],
    license,
    homepage: 'https://github.com/echoperator/echoperator/blob/main/docs/writing-an-operator.md',
    repository: repository.repository,
    type: 'module',
    sideEffects: false,
    engines,
    files: ['runtime'],
    exports: Object.fromEntries(
      Object.entries(entries).map(([entry, module]) => [entry, { types: `${module}.d.ts`, default: `${module}.js` }]),
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
 * Builds the package.
 *
 * @param folder the output folder; its old content is removed
 * @throws ManifestError; ExecaError with the compiler's output
 */
export async function packageRuntime(folder = join(repository, 'dist/package')): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const tsc = join(repository, 'node_modules/.bin/tsc');
  await execa(tsc, ['--project', join(repository, 'tsconfig.runtime.json'), '--outDir', folder]);
  const manifest = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8')) as RepositoryManifest;
  const runtime = runtimeManifest(manifest, await compiledFiles(folder));
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(runtime, null, 2)}\n`);
  await cp(join(repository, 'LICENSE'), join(folder, 'LICENSE'));
  await cp(join(repository, 'src/runtime/README.md'), join(folder, 'README.md'));
}

async function compiledFiles(folder: string): Promise<readonly CompiledFile[]> {
  const paths = (await readdir(folder, { recursive: true })).filter((path) => /\.(?:js|d\.ts)$/.test(path));
  return Promise.all(paths.map(async (path) => ({ path, text: await readFile(join(folder, path), 'utf8') })));
}

// No top-level await: jest's global setup imports this module, and cannot load one that has it.
if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  void packageRuntime(folder === undefined ? undefined : resolve(folder));
}
