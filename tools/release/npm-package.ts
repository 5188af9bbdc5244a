/**
 * Builds the npm packages that are published: each has its compiled code with its declarations, and its manifest, whose
 * entries lead to them. `npm publish ./dist/packages/runtime` publishes one.
 *
 *     node tools/release/npm-package.ts [FOLDER]     default: dist/packages/
 *
 * There are no source maps: the compiled code is the source without its types, with the same lines and comments, so a
 * stack trace leads to readable code.
 */

import { cp, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { execa } from 'execa';

const repository = join(import.meta.dirname, '../..');

/** The folders of the published packages in `packages/`. */
export const publishedPackages = ['runtime', 'testing', 'cli'] as const;
export type PublishedPackage = (typeof publishedPackages)[number];

/** A package's own package.json. Its entries name source files. */
export interface Manifest {
  readonly name: string;
  readonly exports: Readonly<Record<string, string>>;
  /** The commands. They name source files too. */
  readonly bin?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly [field: string]: unknown;
}

export async function manifestOf(name: PublishedPackage): Promise<Manifest> {
  return JSON.parse(await readFile(join(repository, 'packages', name, 'package.json'), 'utf8'));
}

/** Returns the path of an entry's module without extension, relative to the package's code. */
const moduleOf = (source: string): string => source.replace(/^\.\/src\//, '').replace(/\.ts$/, '');

/** Returns a package's entries: the module for each import specifier. */
export const entriesOf = ({ name, exports }: Manifest): ReadonlyMap<string, string> =>
  new Map(Object.entries(exports).map(([entry, source]) => [join(name, entry), moduleOf(source)]));

/**
 * Returns the manifest to publish: with the version, entries and commands that name compiled code, and the same version
 * of the other packages.
 */
export function publishedManifest(manifest: Manifest, version: string): object {
  const { exports, bin, peerDependencies = {} } = manifest;
  const compiled = Object.entries(exports).map(([entry, source]) => {
    const path = `./dist/${moduleOf(source)}`;
    return [entry, { types: `${path}.d.ts`, default: `${path}.js` }];
  });
  const commands = Object.entries(bin ?? {}).map(([name, source]) => [name, `dist/${moduleOf(source)}.js`]);
  const peers = Object.entries(peerDependencies).map(([name, range]) => [name, range === '*' ? version : range]);
  return {
    ...manifest,
    version,
    files: ['dist'],
    exports: Object.fromEntries(compiled),
    ...(bin && { bin: Object.fromEntries(commands) }),
    peerDependencies: Object.fromEntries(peers),
  };
}

/**
 * Compiles the packages and writes each into a folder of its own.
 *
 * @param folder is emptied first.
 * @throws execa's error, with the compiler's output, if a package does not compile.
 */
export async function buildPackages(folder = join(repository, 'dist/packages')): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const compiled = await mkdtemp(join(folder, 'compiled-'));
  await compile(compiled);
  const { version } = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8')) as {
    readonly version: string;
  };
  for (const name of publishedPackages) {
    const built = join(folder, name);
    await mkdir(built);
    await rename(join(compiled, name, 'src'), join(built, 'dist'));
    const manifest = publishedManifest(await manifestOf(name), version);
    await writeFile(join(built, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
    await cp(join(repository, 'LICENSE'), join(built, 'LICENSE'));
    await cp(join(repository, 'packages', name, 'README.md'), join(built, 'README.md'));
  }
  await rm(compiled, { recursive: true });
}

/** An import of anything outside of the packages is an error, because it is not below the compiler's root. */
async function compile(outDir: string): Promise<void> {
  const project = join(repository, 'packages/tsconfig.json');
  await execa(join(repository, 'node_modules/.bin/tsc'), ['--project', project, '--outDir', outDir]);
}

// No top-level await, because jest's global setup imports this module with `require`.
if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  void buildPackages(folder === undefined ? undefined : resolve(folder));
}
