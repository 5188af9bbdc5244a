/**
 * Builds the npm package of the controller runtime: compiled, with its types, and with a manifest of its own that names
 * just what the runtime imports. `npm pack dist/package` and `npm publish ./dist/package` take it from there.
 *
 *     node tools/release/npm-package.ts [FOLDER]     into dist/package/ where no folder is named
 *
 * Source maps are left out: what is compiled is the source without its types, line breaks and comments included, so a
 * stack trace leads to code that can be read.
 */
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { builtinModules } from 'node:module';
import { join, resolve } from 'node:path';
import { execa } from 'execa';

const repository = join(import.meta.dirname, '../..');

/** What may be imported from the package, and the module that answers. */
const entries = {
  './runtime': './runtime/index',
  './kinds': './runtime/kinds/index',
  './runtime/testing': './runtime/testing/index',
} as const;

/** Below this folder is what tests alone import: its packages are installed by those who want it. */
const optionalFolder = join('runtime', 'testing');

/**
 * What an application makes with these packages it hands to the runtime (a schema, a registry): both must have the same
 * copy, the application's.
 */
const peers: readonly string[] = ['prom-client', 'typebox'];

/** The types of Node stand in the declarations; an application in plain JavaScript needs none. */
const typesOfNode = { '@types/node': '>=24' } as const;

/** The runtime imports what the repository's manifest does not name. */
export class ManifestError extends Error {
  override readonly name = 'ManifestError';
}

type Versions = Readonly<Record<string, string>>;

/** As much of the repository's manifest as the package's is made from. */
export interface RepositoryManifest {
  readonly name: string;
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

/** The packages that compiled code names in its imports. Node's own modules are none, nor is what lies beside it. */
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
 * The package's manifest: each package that the compiled runtime imports, in code or in types, with the versions that
 * agree with the one it was tested with, and none else.
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
 * @param folder where the package goes; what is there is removed
 * @throws ManifestError; what the compiler has to say, as execa throws it
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

// Without a top-level await: jest requires what its set-up imports.
if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  void packageRuntime(folder === undefined ? undefined : resolve(folder));
}
