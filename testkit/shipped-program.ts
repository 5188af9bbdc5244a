import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { linkPackages } from '../tools/link-packages.ts';
import { bundle } from '../tools/release/bundle.ts';
import { dieWithParent } from './die-with-parent.ts';

const repository = join(import.meta.dirname, '..');

/** The entry points of the programs that have an image. */
const entries = { operator: 'src/main.ts', petstore: 'packages/petstore/src/server/main.ts' } as const;

export type ShippedProgramName = keyof typeof entries;

/** How an image runs a program. */
interface ShippedProgram {
  /** The path of the bundle's main.js. */
  readonly main: string;
  readonly nodeFlags: readonly string[];
}

export type ShippedPrograms = Readonly<Record<ShippedProgramName, ShippedProgram>> & {
  /** The folder in which Node caches compiled bundles, so that it compiles each only once. */
  readonly compileCache: string;
};

/** Bundles the operator and the pet store into the folder. */
export async function bundlePrograms(folder: string): Promise<ShippedPrograms> {
  const bundleProgram = async (name: ShippedProgramName): Promise<ShippedProgram> => {
    const { folder: bundled } = await bundle({ folder: join(folder, name), entry: join(repository, entries[name]) });
    return { main: join(bundled, 'main.js'), nodeFlags: await nodeFlagsOf(name) };
  };
  const [operator, petstore] = await Promise.all([bundleProgram('operator'), bundleProgram('petstore')]);
  return { operator, petstore, compileCache: join(folder, 'compile-cache') };
}

/**
 * Bundles the operator of a git revision, with the current packages and tools.
 *
 * @param folder an empty folder for its sources and the bundle
 */
export async function bundleOperatorOf(revision: string, folder: string): Promise<ShippedPrograms> {
  const operator = await bundleOperatorIn(await sourcesOf(revision, folder), join(folder, 'operator'));
  return { ...publishedPrograms(), operator, compileCache: join(folder, 'compile-cache') };
}

/** Writes the sources of a git revision below the folder. @returns their folder */
export async function sourcesOf(revision: string, folder: string): Promise<string> {
  const sources = join(folder, 'sources');
  await mkdir(sources, { recursive: true });
  const archive = join(folder, 'sources.tar');
  const wanted = ['src', 'packages', 'package.json', 'tsconfig.json', 'Dockerfile'];
  // Revisions from before the introduction of packages have no folder `packages`.
  const { stdout } = await execa('git', ['ls-tree', '--name-only', revision, '--', ...wanted], { cwd: repository });
  const paths = stdout.split('\n');
  await execa('git', ['archive', `--output=${archive}`, revision, ...paths], { cwd: repository });
  await execa('tar', ['--extract', `--file=${archive}`, `--directory=${sources}`]);
  await linkPackages(sources);
  return sources;
}

/**
 * Bundles the operator of other sources, with the current packages and tools and with their Dockerfile's flags of Node.
 */
export async function bundleOperatorIn(sources: string, folder: string): Promise<ShippedProgram> {
  const bundled = await bundle({ folder, entry: join(sources, entries.operator) });
  return { main: join(bundled.folder, 'main.js'), nodeFlags: await nodeFlagsOf('operator', sources) };
}

/**
 * Returns Node's flags in a program's image. The operator's image is the Dockerfile's last stage. The stage of the pet
 * store's image has the name of the program.
 */
export async function nodeFlagsOf(name: ShippedProgramName, sources = repository): Promise<readonly string[]> {
  const dockerfile = await readFile(join(sources, 'Dockerfile'), 'utf8');
  const stages = dockerfile.split(/^(?=FROM )/m);
  const stage =
    name === 'operator' ? stages.at(-1) : stages.find((each) => each.split('\n')[0]?.endsWith(` AS ${name}`));
  const entryPoint = /^ENTRYPOINT (\[.*\])$/m.exec(stage ?? '')?.[1];
  if (entryPoint === undefined) throw new Error(`the Dockerfile's stage of ${name} has no ENTRYPOINT as a JSON list`);
  return (JSON.parse(entryPoint) as readonly string[]).slice(1, -1);
}

/** Stores the bundles in the environment, which workers that start afterwards inherit. */
export function publishShippedPrograms(programs: ShippedPrograms): void {
  process.env.SHIPPED_PROGRAMS = JSON.stringify(programs);
}

/** Returns the bundles of jest's global set-up. @throws Error if {@link publishShippedPrograms} was not called */
export function publishedPrograms(): ShippedPrograms {
  const { SHIPPED_PROGRAMS } = process.env;
  if (SHIPPED_PROGRAMS === undefined) throw new Error('there are no bundles: the global set-up has not run');
  return JSON.parse(SHIPPED_PROGRAMS);
}

/**
 * Starts a program like its image does. The program ends with this process, even if this process is killed.
 *
 * @param programs the bundles. Default: those of jest's global set-up
 */
export function startShipped(
  name: ShippedProgramName,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  programs = publishedPrograms(),
) {
  const { main, nodeFlags } = programs[name];
  const [file, fileArgs] = dieWithParent(process.execPath, [...nodeFlags, main, ...args]);
  return execa(file, fileArgs, {
    env: { NODE_ENV: 'production', NODE_COMPILE_CACHE: programs.compileCache, ...env },
    reject: false,
    all: true,
    // By default, execa kills a process 5 s after SIGTERM. On a busy machine the programs need longer.
    forceKillAfterDelay: false,
  });
}
