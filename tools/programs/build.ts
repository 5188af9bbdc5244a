import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { access, mkdir, open, readdir, readFile, rename, rm, stat, symlink, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ExecaError, execa } from 'execa';
import { cacheFolder } from '../cache-folder.ts';
import { ExclusiveLock } from '../exclusive-lock.ts';
import { type Display, duration, type Report, runSteps, standardDisplay } from '../progress.ts';
import { type Binary, type BinaryName, catalogue } from './catalogue.ts';

/** A program cannot be built or found. The message says why and what to do. */
export class BuildError extends Error {
  override readonly name = 'BuildError';
}

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
  /** The folder in the cache. It changes with Go, the sources, the dependencies and the flags of the group's programs. */
  readonly target: string;
  readonly path: string;
}

const dieWithParent = join(import.meta.dirname, '../die-with-parent.ts');
const lockPollMs = 200;
const lastLines = 25;

/** Unused programs stay this long, because other branches may need them and a running cluster may use them. */
const unusedForMs = 90 * 24 * 60 * 60 * 1000;

/** With GOTOOLCHAIN=local a go.mod that requires a newer Go fails with Go's message instead of a download. */
const goSettings = { GOTOOLCHAIN: 'local', GOWORK: 'off', GOFLAGS: '' } as const;

/**
 * Builds the programs that are not in the user's cache. All of them take ten minutes.
 *
 * Guarantees: a returned path is a complete program. Any number of processes may call this at the same time: one builds, the others wait.
 * An interrupted or killed call leaves no compiler running, and the next call builds again.
 *
 * @returns the absolute path of each program, from the folder KUBEBUILDER_ASSETS (as in envtest) if it is set and has the program
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

/** Like ensureBinaries. @returns a folder for the PATH with a link to each program; equal programs give an equal folder */
export async function ensureBinFolder(names: readonly BinaryName[], options: EnsureOptions = {}): Promise<string> {
  const paths = [...(await ensureBinaries(names, options))];
  const folder = join(cacheFolder(), 'bin', `links-${hashOf(paths)}`);
  await mkdir(folder, { recursive: true });
  for (const [name, path] of paths) await symlink(path, join(folder, name)).catch(ignore('EEXIST'));
  await markAsUsed(folder);
  return folder;
}

/** Like ensureBinaries, for other programs than the catalogue's. @throws RangeError for an unknown name */
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
    if (!(await exists(build.path))) missing.push(build);
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

interface GoVersion {
  /** For example `go1.26.8`. */
  readonly version: string;
  readonly os: string;
  readonly architecture: string;
}

async function goVersion(environment: NodeJS.ProcessEnv, signal: AbortSignal | undefined): Promise<GoVersion> {
  try {
    const { stdout } = await execa('go', ['env', 'GOVERSION', 'GOHOSTOS', 'GOHOSTARCH'], {
      env: { ...environment, ...goSettings },
      extendEnv: false,
      ...(signal && { cancelSignal: signal }),
    });
    const [version = '', os = '', architecture = ''] = stdout.split('\n');
    return { version, os, architecture };
  } catch (cause) {
    signal?.throwIfAborted();
    const isMissing = cause instanceof ExecaError && cause.code === 'ENOENT';
    const problem = isMissing ? 'there is no `go` on PATH' : '`go env` failed';
    throw new BuildError(`Go is needed to build programs, but ${problem}: install Go (https://go.dev/dl).`, { cause });
  }
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

/** Returns the arguments of `go` without the output path. -v prints each package when it is compiled. */
function buildArguments({ name, package: main, tags = [], stamp }: Binary, goMod: string): readonly string[] {
  const versionOf = (module: string): string => {
    const required = goMod.split('\n').map((line) => line.trim().replace(/^require /, ''));
    const version = required.find((line) => line.startsWith(`${module} v`))?.split(' ')[1];
    if (version === undefined) throw new BuildError(`the go.mod of ${name} does not require ${module}`);
    return version;
  };
  const stamps = Object.entries(stamp?.(versionOf) ?? {}).map(([variable, value]) => `-X ${variable}=${value}`);
  const ldflags = ['-s', '-w', ...stamps].join(' ');
  const flags = ['-v', '-mod=readonly', '-trimpath', '-buildvcs=false', `-tags=${tags.join(',')}`];
  return ['build', ...flags, `-ldflags=${ldflags}`, main];
}

/** Builds the program unless it exists. While another process builds, waits and checks again. */
async function buildOnce(
  build: Build,
  lockFile: string,
  environment: NodeJS.ProcessEnv,
  report: Report,
  signal: AbortSignal | undefined,
): Promise<void> {
  let waitingFor: string | undefined;
  while (!(await exists(build.path))) {
    signal?.throwIfAborted();
    using lock = ExclusiveLock.tryAcquire(lockFile, `building ${build.binary.name}`);
    if (lock === undefined) {
      const holder = ExclusiveLock.lastHolder(lockFile);
      if (holder !== waitingFor) report.notice(`waiting for another builder: ${holder}`);
      waitingFor = holder;
      await delay(lockPollMs, undefined, signal && { signal });
    } else if (!(await exists(build.path))) {
      await compile(build, environment, report, signal);
    }
  }
}

/** Compiles in a temporary folder and renames the program at the end. The caller must hold the lock. */
async function compile(
  { binary, source, args: [verb = '', ...args], target, path }: Build,
  environment: NodeJS.ProcessEnv,
  report: Report,
  signal: AbortSignal | undefined,
): Promise<void> {
  const unfinished = join(target, '.unfinished');
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished);
  const output = join(unfinished, binary.name);
  const go = execa(process.execPath, [dieWithParent, 'go', verb, '-o', output, ...args], {
    cwd: source,
    env: { ...environment, ...goSettings, CGO_ENABLED: '0', GOOS: '', GOARCH: '', GOTMPDIR: unfinished },
    extendEnv: false,
    stdin: 'pipe',
    all: true,
    buffer: false,
    reject: false,
    ...(signal && { cancelSignal: signal }),
  });
  const tail: string[] = [];
  for await (const line of go.iterable({ from: 'all' })) {
    // A line with a package name contains no space, unlike a message.
    if (/^[\w./~-]+$/.test(line)) report.doing(`compiling ${line}`);
    else if (line.startsWith('go: downloading ')) report.doing(line.slice('go: '.length));
    else tail.push(line);
  }
  const result = await go;
  signal?.throwIfAborted();
  if (result.failed) {
    throw new BuildError([`cannot build ${binary.name} in ${source}:`, ...tail.slice(-lastLines)].join('\n  '), {
      cause: result,
    });
  }
  await using handle = await open(output, 'r+');
  await handle.sync();
  await rename(output, path);
  await rm(unfinished, { recursive: true });
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

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    (error: unknown) => ignore('ENOENT')(error) ?? false,
  );

const ignore =
  (code: string) =>
  (error: unknown): undefined => {
    if ((error as NodeJS.ErrnoException).code !== code) throw error;
  };
