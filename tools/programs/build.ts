import { createHash } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { access, mkdir, open, readdir, readFile, rename, rm, stat, symlink, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cacheFolder } from '../cache-folder.ts';
import { runOnce } from '../exclusive-lock.ts';
import { type Display, duration, type Report, runSteps, standardDisplay } from '../progress.ts';
import { type Binary, type BinaryName, catalogue } from './catalogue.ts';
import { BuildError, buildArguments, compile, type GoVersion, goVersion } from './go.ts';

export interface EnsureOptions {
  /** Aborts the wait and the build. Programs built so far stay. */
  readonly signal?: AbortSignal;
  /** Shows the progress if anything has to be built. Default: standard error. */
  readonly display?: Display;
}

/** The programs and the folder of their Go modules. */
export interface ProgramSource {
  readonly binaries: readonly Binary[];
  /** Contains a folder with a go.mod for each group. */
  readonly folder: string;
  readonly environment: NodeJS.ProcessEnv;
}

/** How to build a program and where to put it in the cache. */
interface Build {
  readonly binary: Binary;
  /** The folder of its group's go.mod. */
  readonly source: string;
  readonly args: readonly string[];
  /**
   * The folder in the cache. It changes with Go, the sources, the dependencies and the flags of the group's programs.
   */
  readonly target: string;
  readonly path: string;
}

/** Unused programs stay this long, because other branches may need them and a running cluster may use them. */
const unusedForMs = 90 * 24 * 60 * 60 * 1000;

/**
 * Builds the programs that are not in the user's cache. All of them take ten minutes.
 *
 * Guarantees: a returned path is a complete program. Any number of processes may call this at the same time: one
 * builds, the others wait. An interrupted or killed call leaves no compiler running, and the next call builds again.
 *
 * @returns the absolute path of each program, from the folder KUBEBUILDER_ASSETS (as in envtest) if it is set and has
 *   the program
 * @throws BuildError; the signal's reason
 */
export async function ensureBinaries(
  names: readonly BinaryName[],
  options: EnsureOptions = {},
): Promise<ReadonlyMap<BinaryName, string>> {
  const source = { binaries: catalogue, folder: import.meta.dirname, environment: process.env };
  // The keys are the requested names.
  return (await ensureBinariesIn(source, names, options)) as ReadonlyMap<BinaryName, string>;
}

/**
 * Like ensureBinaries.
 *
 * @returns a folder for the PATH with a link to each program; equal programs give an equal folder
 */
export async function ensureBinFolder(names: readonly BinaryName[], options: EnsureOptions = {}): Promise<string> {
  const paths = [...(await ensureBinaries(names, options))];
  const folder = join(cacheFolder(), 'bin', `links-${hashOf(paths)}`);
  await mkdir(folder, { recursive: true });
  for (const [name, path] of paths) await symlinkIfMissing(path, join(folder, name));
  await markAsUsed(folder);
  return folder;
}

async function symlinkIfMissing(target: string, path: string): Promise<void> {
  try {
    await symlink(target, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Like ensureBinaries, for programs that are not in the catalogue. @throws RangeError for an unknown name */
export async function ensureBinariesIn(
  { binaries, folder, environment }: ProgramSource,
  names: readonly string[],
  { signal, display = standardDisplay() }: EnsureOptions = {},
): Promise<ReadonlyMap<string, string>> {
  const unknown = names.filter((name) => !binaries.some((binary) => binary.name === name));
  if (unknown.length > 0) throw new RangeError(`no such program: ${unknown.join(', ')}`);
  const wanted = binaries.filter(({ name }) => names.includes(name));
  const paths = new Map(await findAssets(wanted, environment.KUBEBUILDER_ASSETS));
  const own = wanted.filter(({ name }) => !paths.has(name));
  if (own.length === 0) return paths;

  const cache = join(cacheFolder(environment), 'bin');
  const go = await goVersion(environment, signal);
  const missing: Build[] = [];
  for (const binary of own) {
    const build = await planBuild(binary, binaries, folder, cache, go);
    await markAsUsed(build.target);
    if (!existsSync(build.path)) missing.push(build);
    paths.set(binary.name, build.path);
  }
  if (missing.length === 0) return paths;
  const expectedMs = 1000 * missing.reduce((sum, { binary }) => sum + binary.seconds, 0);
  const programs = missing.length === 1 ? 'a program' : `${missing.length} programs`;
  display.line(`Building ${programs} into ${cache}: about ${duration(expectedMs)} on two cores`);
  const steps = missing.map((build) => ({
    title: build.binary.name,
    expectedMs: 1000 * build.binary.seconds,
    run: (report: Report) => buildOnce(build, join(cache, '.lock'), environment, report, signal),
  }));
  await runSteps(steps, display);
  await removeUnused(cache);
  return paths;
}

async function findAssets(binaries: readonly Binary[], folder: string | undefined): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  if (!folder) return found;
  for (const { name, assets } of binaries) {
    if (assets === undefined) continue;
    const path = join(folder, name);
    const isExecutable = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isExecutable) found.set(name, path);
    else if (assets === 'required') {
      throw new BuildError(
        `KUBEBUILDER_ASSETS is ${JSON.stringify(folder)}, which has no executable ${name}: ` +
          'set it to a folder with it, or unset it to build the program.',
      );
    }
  }
  return found;
}

async function planBuild(
  binary: Binary,
  binaries: readonly Binary[],
  folder: string,
  cache: string,
  go: GoVersion,
): Promise<Build> {
  const source = join(folder, binary.group);
  const files = (await readdir(source, { recursive: true })).filter((file) => /\.go$|^go\.(mod|sum)$/.test(file));
  const sources = await Promise.all(
    files.sort().map(async (file) => [file, await readFile(join(source, file), 'utf8')] as const),
  );
  const goMod = new Map(sources).get('go.mod') ?? '';
  const group = binaries.filter((one) => one.group === binary.group);
  const builds = group.map((one) => [one.name, ...buildArguments(one, goMod)]);
  const target = join(cache, `${binary.group}-${hashOf({ go, sources, builds })}`);
  return { binary, source, args: buildArguments(binary, goMod), target, path: join(target, binary.name) };
}

/** Builds the program unless another process does. */
async function buildOnce(
  { binary, source, args, path }: Build,
  lockFile: string,
  environment: NodeJS.ProcessEnv,
  report: Report,
  signal: AbortSignal | undefined,
): Promise<void> {
  const isDone = async () => existsSync(path);
  const onWait = (holder: string) => report.notice(`waiting for another builder: ${holder}`);
  await runOnce({ lockFile, purpose: `building ${binary.name}`, isDone, onWait, signal }, async () => {
    const unfinished = join(dirname(path), '.unfinished');
    await rm(unfinished, { recursive: true, force: true });
    await mkdir(unfinished);
    const output = join(unfinished, binary.name);
    await compile({ name: binary.name, source, args, output }, environment, report, signal);
    // A file at the path must be complete, even after a power failure.
    await using handle = await open(output, 'r+');
    await handle.sync();
    await rename(output, path);
    await rm(unfinished, { recursive: true });
  });
}

/** Sets a folder's modification time to now. removeUnused reads it as the time of the last use. */
async function markAsUsed(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const now = new Date();
  await utimes(folder, now, now);
}

async function removeUnused(cache: string): Promise<void> {
  for (const name of await readdir(cache)) {
    const folder = join(cache, name);
    if (!/-[0-9a-f]{16}$/.test(name) || Date.now() - (await stat(folder)).mtimeMs < unusedForMs) continue;
    await rm(folder, { recursive: true, force: true });
  }
}

const hashOf = (value: unknown): string =>
  createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 16);
