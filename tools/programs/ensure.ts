import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rename, rm, symlink, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cacheFolder } from '../cache-folder.ts';
import { type Display, duration, type Report, runSteps, type Step, standardDisplay } from '../progress.ts';
import { findAssets } from './assets.ts';
import { type Builds, buildBinary, exists } from './build-binary.ts';
import { type Binary, type BinaryName, catalogue, sharedSeconds } from './catalogue.ts';
import { findGo, type GoToolchain } from './go-toolchain.ts';
import { type Group, readGroup } from './group.ts';
import { pruneUnused } from './prune.ts';

export interface EnsureOptions {
  /** Ends the wait and the build; what is built so far stays. */
  readonly signal?: AbortSignal;
  /** Who is shown the progress, if anything has to be built; by default standard error. */
  readonly display?: Display;
}

/** What is built from where: fixed but for the tests of the builder itself. */
export interface Workshop {
  readonly binaries: readonly Binary[];
  /** The folder with a folder for each group. */
  readonly programsFolder: string;
  readonly environment: NodeJS.ProcessEnv;
}

/** A program and the place in the cache that it has, or will have. */
interface Placed {
  readonly binary: Binary;
  readonly group: Group;
  readonly path: string;
}

const workshop: Workshop = {
  binaries: catalogue,
  programsFolder: import.meta.dirname,
  environment: process.env,
};

/**
 * Makes sure that programs are there, building in the user's cache those that are not: ten minutes for all of them the
 * first time, and no time after that.
 *
 * Guarantees: a program is whole when its path is returned. Any number of processes may ask at once: one builds, the
 * others wait and say so. An interrupted call, also one killed with -9, leaves nothing that stands in the way of the
 * next, and no compiler running.
 *
 * @returns the absolute path of each program
 * @throws GoToolchainError without a good enough Go; AssetsError if KUBEBUILDER_ASSETS points at nothing of use;
 *   BuildError if a program does not compile; the signal's reason
 */
export async function ensureBinaries(
  names: readonly BinaryName[],
  options: EnsureOptions = {},
): Promise<ReadonlyMap<BinaryName, string>> {
  // Its keys are the names that were asked for.
  return (await ensureIn(workshop, names, options)) as ReadonlyMap<BinaryName, string>;
}

/**
 * As ensureBinaries, and links the programs together in one folder, for PATH.
 *
 * @returns the folder's absolute path, the same for the same programs
 */
export async function ensureBinFolder(names: readonly BinaryName[], options: EnsureOptions = {}): Promise<string> {
  const paths = await ensureIn(workshop, names, options);
  return linkTogether(paths, binCache(workshop.environment));
}

/** ensureBinaries for any workshop. @throws RangeError for a name that is not in its catalogue, and as ensureBinaries */
export async function ensureIn(
  workshop: Workshop,
  names: readonly string[],
  { signal, display = standardDisplay() }: EnsureOptions = {},
): Promise<ReadonlyMap<string, string>> {
  const { binaries, environment } = workshop;
  const unknown = names.filter((name) => !binaries.some((binary) => binary.name === name));
  if (unknown.length > 0) throw new RangeError(`no such program: ${unknown.join(', ')}`);
  const wanted = binaries.filter(({ name }) => names.includes(name));
  const assets = await findAssets(wanted, environment);
  const own = wanted.filter(({ name }) => !assets.has(name));
  if (own.length === 0) return assets;

  const go = await findGo(environment, signal);
  const cache = binCache(environment);
  const placed = await place(own, workshop, cache, go);
  const missing: Placed[] = [];
  for (const one of placed) if (!(await exists(one.path))) missing.push(one);
  if (missing.length > 0) {
    const builds = { lockFile: join(cache, '.lock'), go, environment, signal };
    const steps = await buildSteps(missing, builds);
    const expectedMs = steps.reduce((sum, step) => sum + step.expectedMs, 0);
    const programs = steps.length === 1 ? 'a program' : `${steps.length} programs`;
    display.line(`Building ${programs} into ${cache}: about ${duration(expectedMs)} on two cores`);
    await runSteps(steps, display);
    await pruneUnused(cache, Date.now());
  }
  return new Map([...assets, ...placed.map(({ binary, path }) => [binary.name, path] as const)]);
}

async function buildSteps(
  missing: readonly Placed[],
  builds: Builds,
): Promise<readonly (Step & { expectedMs: number })[]> {
  const begun = new Set<Group>();
  const steps = [];
  for (const { binary, group, path } of missing) {
    const first = !begun.has(group) && (await readdir(dirname(path))).length === 0;
    begun.add(group);
    steps.push({
      title: binary.name,
      expectedMs: 1000 * (binary.seconds + (first ? (sharedSeconds[group.name] ?? 0) : 0)),
      run: (report: Report) => buildBinary(binary, group, path, builds, report),
    });
  }
  return steps;
}

/** Marks the groups' folders as used, so that nobody prunes them from here on. */
async function place(
  binaries: readonly Binary[],
  { binaries: all, programsFolder }: Workshop,
  cache: string,
  go: GoToolchain,
): Promise<readonly Placed[]> {
  const groups = new Map<string, Group>();
  const placed: Placed[] = [];
  for (const binary of binaries) {
    const group = groups.get(binary.group) ?? (await readGroup(binary.group, programsFolder, all, go));
    const folder = join(cache, `${group.name}-${group.key}`);
    if (!groups.has(group.name)) await markAsUsed(folder);
    groups.set(group.name, group);
    placed.push({ binary, group, path: join(folder, binary.name) });
  }
  return placed;
}

async function linkTogether(paths: ReadonlyMap<string, string>, cache: string): Promise<string> {
  const key = createHash('sha256')
    .update(JSON.stringify([...paths]))
    .digest('hex')
    .slice(0, 16);
  const folder = join(cache, `links-${key}`);
  if (!(await exists(folder))) {
    await mkdir(cache, { recursive: true });
    const partial = await mkdtemp(join(cache, '.partial-links-'));
    for (const [name, path] of paths) await symlink(path, join(partial, name));
    try {
      await rename(partial, folder);
    } catch (error) {
      await rm(partial, { recursive: true });
      // Somebody else has made the same folder in the meantime.
      if (!(await exists(folder))) throw error;
    }
  }
  await markAsUsed(folder);
  return folder;
}

async function markAsUsed(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const now = new Date();
  await utimes(folder, now, now);
}

function binCache(environment: NodeJS.ProcessEnv): string {
  return join(cacheFolder(environment), 'bin');
}
