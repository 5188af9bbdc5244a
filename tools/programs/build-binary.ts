import { mkdtemp, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
import { ExclusiveLock } from '../exclusive-lock.ts';
import type { Report } from '../progress.ts';
import type { Binary } from './catalogue.ts';
import { type GoToolchain, goSettings } from './go-toolchain.ts';
import type { Group } from './group.ts';

/** What all builds into one cache share. */
export interface Builds {
  /** Held by the one builder, of all processes, that compiles: two at once would be slower than one after the other. */
  readonly lockFile: string;
  readonly go: GoToolchain;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal | undefined;
}

/** The compiler or the linker failed. The message has its last lines and names the whole log. */
export class BuildError extends Error {
  override readonly name = 'BuildError';
}

const dieWithParent = join(import.meta.dirname, '../die-with-parent.ts');
const lockPollMs = 200;
const partialPrefix = '.partial-';
const lastLines = 25;

/**
 * Builds a program to `path` unless it is there: waits while another process builds, and looks again.
 *
 * Guarantee: what is at `path` is whole. It is built beside it and moved there at the end, so a builder that is
 * interrupted, or killed, leaves nothing that the next one takes for a program.
 *
 * @param path in a folder that exists
 * @throws BuildError if it does not compile; the signal's reason if it is aborted
 */
export async function buildBinary(
  binary: Binary,
  group: Group,
  path: string,
  builds: Builds,
  report: Report,
): Promise<void> {
  const { lockFile, signal } = builds;
  let waitingFor: string | undefined;
  while (!(await exists(path))) {
    signal?.throwIfAborted();
    using lock = ExclusiveLock.tryAcquire(lockFile, `building ${binary.name}`);
    if (lock === undefined) {
      const holder = ExclusiveLock.lastHolder(lockFile);
      if (holder !== waitingFor) report.notice(`waiting for another builder: ${holder}`);
      waitingFor = holder;
      await sleep(lockPollMs, undefined, signal && { signal });
    } else if (!(await exists(path))) {
      await buildUnderLock(binary, group, path, builds, report);
    }
  }
}

async function buildUnderLock(
  binary: Binary,
  group: Group,
  path: string,
  builds: Builds,
  report: Report,
): Promise<void> {
  const folder = join(path, '..');
  await removePartials(folder);
  const partial = await mkdtemp(join(folder, `${partialPrefix}${binary.name}-`));
  const log = join(folder, `${binary.name}.log`);
  const output = join(partial, basename(path));
  await compile(binary, group, output, log, partial, builds, report);
  await syncToDisk(output);
  await rename(output, path);
  await rm(partial, { recursive: true });
  await rm(log);
}

/** Only the holder of the lock writes here, so what is unfinished now will never be finished. */
async function removePartials(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (name.startsWith(partialPrefix)) await rm(join(folder, name), { recursive: true, force: true });
  }
}

async function compile(
  binary: Binary,
  group: Group,
  output: string,
  log: string,
  temporary: string,
  { go, environment, signal }: Builds,
  report: Report,
): Promise<void> {
  const [verb, ...rest] = group.buildArguments(binary);
  const build = execa(process.execPath, [dieWithParent, 'go', verb ?? '', '-o', output, ...rest], {
    cwd: group.folder,
    env: {
      ...environment,
      ...goSettings,
      CGO_ENABLED: '0',
      GOOS: go.os,
      GOARCH: go.architecture,
      GOTMPDIR: temporary,
    },
    extendEnv: false,
    stdin: 'pipe',
    all: true,
    stdout: ['pipe', { file: log }],
    stderr: ['pipe', { file: log }],
    buffer: false,
    reject: false,
    ...(signal && { cancelSignal: signal }),
  });
  const tail: string[] = [];
  for await (const line of build.iterable({ from: 'all' })) {
    if (isPackage(line)) report.doing(`compiling ${line}`);
    else if (line.startsWith('go: downloading ')) report.doing(line.slice('go: '.length));
    else tail.push(line);
    if (tail.length > lastLines) tail.shift();
  }
  const result = await build;
  signal?.throwIfAborted();
  if (result.failed) {
    throw new BuildError(
      [`can't build ${binary.name} (tools/programs/${group.name}):`, ...tail, `The whole log: ${log}`].join('\n  '),
      { cause: result },
    );
  }
}

/** With -v Go names each package that it compiles on a line of its own; what goes wrong always has a space in it. */
function isPackage(line: string): boolean {
  return /^[\w./~-]+$/.test(line);
}

async function syncToDisk(file: string): Promise<void> {
  const handle = await open(file, 'r+');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Whether there is anything at a path. */
export async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}
