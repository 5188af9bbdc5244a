/**
 * Bundles a program: dist/main.js and its chunks, which a pod runs with nothing beside them but Node.
 *
 *     node tools/release/bundle.ts [FOLDER [ENTRY]]     into dist/ where no folder is named; the operator where no entry is
 *
 * Identifiers stay as they are written, so that a stack trace in a log is readable without a source map.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { build, type Metafile } from 'esbuild';
import { leanBuiltins } from './bundle/lean-builtins.ts';
import { leanClientNode } from './bundle/lean-client-node.ts';
import { leanUndici } from './bundle/lean-undici.ts';
import { licenses } from './bundle/licenses.ts';

const repository = join(import.meta.dirname, '../..');

export type Bundle = {
  readonly folder: string;
  /** All that Node reads at the start: main.js and what it imports statically. */
  readonly startBytes: number;
  /** What it reads on demand alone. */
  readonly lazyBytes: number;
};

/** The bundle would load, at every start, what a pod never needs. */
export class HeavyStartError extends Error {
  override readonly name = 'HeavyStartError';
}

/**
 * @param options.folder where the bundle goes; what a former bundle left there is removed
 * @param options.entry the program
 * @throws HeavyStartError where @kubernetes/client-node is reached by static imports
 */
export async function bundle({
  folder = join(repository, 'dist'),
  entry = join(repository, 'src/main.ts'),
}: {
  readonly folder?: string;
  readonly entry?: string;
} = {}): Promise<Bundle> {
  for (const former of ['main.js', 'main.js.LEGAL.txt', 'chunks']) {
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
  refuseHeavyStart(metafile, start);
  // Node takes main.js for an ES module without a second look, and scanners read here what this is.
  await writeFile(
    join(folder, 'package.json'),
    `${JSON.stringify({ name, version, license, type: 'module', private: true }, null, 2)}\n`,
  );
  await writeFile(join(folder, 'LICENSES.txt'), await licenses(repository, metafile));
  const bytes = (output: string): number => metafile.outputs[output]?.bytes ?? 0;
  const scripts = Object.keys(metafile.outputs).filter((output) => output.endsWith('.js'));
  const startBytes = start.reduce((total, output) => total + bytes(output), 0);
  const allBytes = scripts.reduce((total, output) => total + bytes(output), 0);
  return { folder, startBytes, lazyBytes: allBytes - startBytes };
}

/** The outputs that are loaded before the program's first line runs. */
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

function refuseHeavyStart(metafile: Metafile, start: readonly string[]): void {
  for (const output of start) {
    const heavy = Object.keys(metafile.outputs[output]?.inputs ?? {}).find(isGenerated);
    if (heavy === undefined) continue;
    const importers = Object.entries(metafile.inputs)
      .filter(
        ([path, { imports }]) =>
          !isGenerated(path) &&
          imports.some((imported) => imported.kind === 'import-statement' && isGenerated(imported.path)),
      )
      .map(([path]) => path);
    throw new HeavyStartError(
      `main.js would load ${heavy} at every start: import ${importers.join(' and ')} on demand.`,
    );
  }
}

const isGenerated = (path: string): boolean => path.includes('node_modules/@kubernetes/client-node/');

const kilobytes = (bytes: number): string => `${Math.round(bytes / 1000)} kB`;

async function main([folder, entry]: readonly string[]): Promise<void> {
  const made = await bundle({
    ...(folder !== undefined && { folder: resolve(folder) }),
    ...(entry !== undefined && { entry: resolve(entry) }),
  });
  console.log(`${made.folder}: ${kilobytes(made.startBytes)} at the start, ${kilobytes(made.lazyBytes)} on demand`);
}

// No await at the top: jest's global set-up, which imports this, can't load a module that has one.
if (import.meta.main) void main(process.argv.slice(2));
