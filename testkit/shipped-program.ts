import { mkdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { bundle } from '../tools/release/bundle.ts';
import { dieWithParent } from './die-with-parent.ts';

const repository = join(import.meta.dirname, '..');

/** The programs that have an image. */
const entries = { operator: 'src/main.ts', petstore: 'src/petstore/main.ts' } as const;

export type ShippedProgramName = keyof typeof entries;

/** A program as its image runs it. */
interface ShippedProgram {
  /** The bundle's main.js. */
  readonly main: string;
  readonly nodeFlags: readonly string[];
}

export type ShippedPrograms = Readonly<Record<ShippedProgramName, ShippedProgram>> & {
  /** Node compiles a bundle at the first start alone. */
  readonly compileCache: string;
};

/** Bundles the operator and the pet store into the folder. */
export async function bundlePrograms(folder: string): Promise<ShippedPrograms> {
  const made = async (name: ShippedProgramName): Promise<ShippedProgram> => {
    const { folder: bundled } = await bundle({ folder: join(folder, name), entry: join(repository, entries[name]) });
    return { main: join(bundled, 'main.js'), nodeFlags: await nodeFlagsOf(name) };
  };
  const [operator, petstore] = await Promise.all([made('operator'), made('petstore')]);
  return { operator, petstore, compileCache: join(folder, 'compile-cache') };
}

/**
 * Bundles the operator as it was at a revision, with the packages and the tools of today.
 *
 * @param folder of its own, for its sources too.
 */
export async function bundleOperatorOf(revision: string, folder: string): Promise<ShippedPrograms> {
  const sources = join(folder, 'sources');
  await mkdir(sources, { recursive: true });
  const archive = join(folder, 'sources.tar');
  await execa('git', ['archive', `--output=${archive}`, revision, 'src', 'package.json'], { cwd: repository });
  await execa('tar', ['--extract', `--file=${archive}`, `--directory=${sources}`]);
  await symlink(join(repository, 'node_modules'), join(sources, 'node_modules'));
  const bundled = await bundle({ folder: join(folder, 'operator'), entry: join(sources, entries.operator) });
  const main = join(bundled.folder, 'main.js');
  return {
    ...toldPrograms(),
    operator: { main, nodeFlags: await nodeFlagsOf('operator') },
    compileCache: join(folder, 'compile-cache'),
  };
}

/** The flags that a program's image gives to Node: of the Dockerfile's stage for the pet store, of its last for the operator. */
export async function nodeFlagsOf(name: ShippedProgramName): Promise<readonly string[]> {
  const dockerfile = await readFile(join(repository, 'Dockerfile'), 'utf8');
  const stages = dockerfile.split(/^(?=FROM )/m);
  const stage =
    name === 'operator' ? stages.at(-1) : stages.find((each) => each.split('\n')[0]?.endsWith(` AS ${name}`));
  const entryPoint = /^ENTRYPOINT (\[.*\])$/m.exec(stage ?? '')?.[1];
  if (entryPoint === undefined) throw new Error(`the Dockerfile has no ENTRYPOINT in the form of a list for ${name}`);
  return (JSON.parse(entryPoint) as readonly string[]).slice(1, -1);
}

/** Says where the bundles are; workers that are started afterwards inherit it. */
export function tellShippedPrograms(programs: ShippedPrograms): void {
  process.env.SHIPPED_PROGRAMS = JSON.stringify(programs);
}

/** @throws Error if nobody has told */
function toldPrograms(): ShippedPrograms {
  const { SHIPPED_PROGRAMS } = process.env;
  if (SHIPPED_PROGRAMS === undefined) throw new Error('no bundles: the global set-up has not run');
  return JSON.parse(SHIPPED_PROGRAMS);
}

/**
 * Starts a program as its image does. It ends with this process, also when that is killed.
 *
 * @param programs the bundles. Default: those of jest's global set-up.
 */
export function startShipped(
  name: ShippedProgramName,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  programs = toldPrograms(),
) {
  const { main, nodeFlags } = programs[name];
  const [file, words] = dieWithParent(process.execPath, [...nodeFlags, main, ...args]);
  return execa(file, words, {
    env: { NODE_ENV: 'production', NODE_COMPILE_CACHE: programs.compileCache, ...env },
    reject: false,
    all: true,
    // By default execa kills what has not ended 5 s after SIGTERM: less than the programs' own limits on a busy machine.
    forceKillAfterDelay: false,
  });
}
