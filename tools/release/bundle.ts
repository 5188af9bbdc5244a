/**
 * Bundles a program into main.js and its chunks, which need only Node to run.
 *
 *     node tools/release/bundle.ts [FOLDER [ENTRY]]     default: the operator, into dist/
 *
 * Identifiers are not minified, so that a stack trace in a log is readable without a source map.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { build, type Metafile } from 'esbuild';
import { leanBuiltins } from './bundle/lean-builtins.ts';
import { leanClientNode } from './bundle/lean-client-node.ts';
import { leanUndici } from './bundle/lean-undici.ts';
import { bundledPackages, licenses, writeManifests } from './bundle/packages.ts';

const repository = join(import.meta.dirname, '../..');

export type Bundle = {
  readonly folder: string;
  /** The size of the files that Node reads at start: main.js and its static imports. */
  readonly startBytes: number;
  /** The size of the files that Node reads on demand. */
  readonly lazyBytes: number;
};

/** The bundle would load at every start a package that a pod does not need. */
export class HeavyStartError extends Error {
  override readonly name = 'HeavyStartError';
}

/**
 * Bundles a program.
 *
 * @param options.folder the output folder; files of an earlier bundle are removed
 * @param options.entry the program's main module
 * @throws HeavyStartError if static imports reach @kubernetes/client-node
 */
export async function bundle({
  folder = join(repository, 'dist'),
  entry = join(repository, 'src/main.ts'),
}: {
  readonly folder?: string;
  readonly entry?: string;
} = {}): Promise<Bundle> {
  for (const former of ['main.js', 'main.js.LEGAL.txt', 'chunks', 'packages']) {
    await rm(join(folder, former), { recursive: true, force: true });
  }
  await mkdir(folder, { recursive: true });
  const { name, version, license } = JSON.parse(await readFile(join(repository, 'package.json'), 'utf8')) as {
    readonly name: string;
    readonly version: string;
    readonly license: string;
  };
  const { metafile } = await build({
    absWorkingDir: repository,
    entryPoints: { main: entry },
    outdir: folder,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node26',
    chunkNames: 'chunks/[name]-[hash]',
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: 'external',
    define: { ECHOPERATOR_VERSION: JSON.stringify(version) },
    metafile: true,
    logLevel: 'warning',
    plugins: [leanBuiltins, leanUndici, leanClientNode],
  });
  const start = staticClosure(metafile);
  rejectHeavyStart(metafile, start);
  // The manifest makes Node treat main.js as an ES module, and scanners read the name and version.
  await writeFile(
    join(folder, 'package.json'),
    `${JSON.stringify({ name, version, license, type: 'module', private: true }, null, 2)}\n`,
  );
  const packages = await bundledPackages(repository, metafile);
  await writeFile(join(folder, 'LICENSES.txt'), await licenses(repository, packages));
  await writeManifests(join(folder, 'packages'), packages);
  const bytes = (output: string): number => metafile.outputs[output]?.bytes ?? 0;
  const scripts = Object.keys(metafile.outputs).filter((output) => output.endsWith('.js'));
  const startBytes = start.reduce((total, output) => total + bytes(output), 0);
  const allBytes = scripts.reduce((total, output) => total + bytes(output), 0);
  return { folder, startBytes, lazyBytes: allBytes - startBytes };
}

/** Returns the outputs that Node loads before the program's first line runs. */
function staticClosure(metafile: Metafile): readonly string[] {
  const main = Object.keys(metafile.outputs).find(
    (output) => metafile.outputs[output]?.entryPoint !== undefined && output.endsWith('/main.js'),
  );
  if (main === undefined) throw new Error('esbuild wrote no main.js');
  const reached = new Set([main]);
  for (const output of reached) {
    for (const imported of metafile.outputs[output]?.imports ?? []) {
      if (imported.kind === 'import-statement' && imported.external !== true) reached.add(imported.path);
    }
  }
  return [...reached];
}

function rejectHeavyStart(metafile: Metafile, start: readonly string[]): void {
  for (const output of start) {
    const heavy = Object.keys(metafile.outputs[output]?.inputs ?? {}).find(isClientNode);
    if (heavy === undefined) continue;
    const importers = Object.entries(metafile.inputs)
      .filter(
        ([path, { imports }]) =>
          !isClientNode(path) &&
          imports.some((imported) => imported.kind === 'import-statement' && isClientNode(imported.path)),
      )
      .map(([path]) => path);
    throw new HeavyStartError(
      `main.js would load ${heavy} at every start: import ${importers.join(' and ')} on demand.`,
    );
  }
}

const isClientNode = (path: string): boolean => path.includes('node_modules/@kubernetes/client-node/');

const kilobytes = (bytes: number): string => `${Math.round(bytes / 1000)} kB`;

async function main([folder, entry]: readonly string[]): Promise<void> {
  const made = await bundle({
    ...(folder !== undefined && { folder: resolve(folder) }),
    ...(entry !== undefined && { entry: resolve(entry) }),
  });
  console.log(`${made.folder}: ${kilobytes(made.startBytes)} at start, ${kilobytes(made.lazyBytes)} on demand`);
}

// No top-level await: jest's global setup imports this module, and cannot load one that has it.
if (import.meta.main) void main(process.argv.slice(2));
