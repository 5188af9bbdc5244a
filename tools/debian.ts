import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
import { cacheFolder } from './cache-folder.ts';
import { ExclusiveLock } from './exclusive-lock.ts';
import { type Display, type Report, runSteps, standardDisplay } from './progress.ts';

/** What the test cluster needs of Debian, beside what every Debian has. */
export const clusterPackages = [
  'btrfs-progs', // the filesystems of volumes: btrfs, mkfs.btrfs
  'buildah', // builds images without a daemon
  'busybox-static', // what the busybox and pause images are made of
  'containernetworking-plugins', // the pods' network
  'iproute2', // ip: namespaces and links
  'mount', // losetup, mount and umount: volumes
  'nftables', // nft: what kube-proxy writes its rules with
  'openssl', // the cluster's certificates
  'runc', // containers
  'util-linux', // nsenter, unshare
] as const;

/** The packages can't be installed here, or apt failed. The message says which they are and what to do. */
export class PackagesError extends Error {
  override readonly name = 'PackagesError';
}

export interface PackagesOptions {
  /** Ends the wait for another installation. An installation that has begun is not interrupted. */
  readonly signal?: AbortSignal;
  /** Who is shown the progress, if anything has to be installed; by default standard error. */
  readonly display?: Display;
  readonly environment?: NodeJS.ProcessEnv;
}

/** How long another package manager may hold dpkg's or apt's locks before this gives up. */
const lockTimeoutSeconds = 600;
const pollMs = 1000;
const lastLines = 15;

/**
 * Installs those of the packages that are missing. Needs root only if one is.
 *
 * Guarantee: any number of processes may call it at once, beside any other user of apt: one installs, the others wait.
 *
 * @throws PackagesError on a system without dpkg or apt-get, if one is missing and the user is not root, or if apt fails
 */
export async function ensureDebianPackages(
  packages: readonly string[] = clusterPackages,
  { signal, display = standardDisplay(), environment = process.env }: PackagesOptions = {},
): Promise<void> {
  const missing = await findMissing(packages, environment);
  if (missing.length === 0) return;
  if (process.getuid?.() !== 0) {
    throw new PackagesError(
      `Debian's packages ${missing.join(', ')} are needed, and only root can install them: sudo apt-get install --no-install-recommends ${missing.join(' ')}`,
    );
  }
  await mkdir(cacheFolder(environment), { recursive: true });
  const apt: Apt = { lockFile: join(cacheFolder(environment), 'apt.lock'), environment, signal };
  const run = (report: Report) => installUnlessDone(packages, apt, report);
  await runSteps([{ title: `Debian packages ${missing.join(', ')}`, run }], display);
}

interface Apt {
  readonly lockFile: string;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal: AbortSignal | undefined;
}

/** A package that another one provides is not missing: to install runc beside Docker's own would remove Docker. */
async function findMissing(packages: readonly string[], environment: NodeJS.ProcessEnv): Promise<readonly string[]> {
  const query = await execa(
    'dpkg-query',
    ['--show', `--showformat=\${db:Status-Status} \${Package}, \${Provides}\\n`],
    {
      env: environment,
      extendEnv: false,
      reject: false,
    },
  );
  if (query.code === 'ENOENT') {
    throw new PackagesError(
      `This is not Debian or one of its family, where the packages ${packages.join(', ')} could be installed: use a machine that is, or a cluster of your own (KUBECONFIG).`,
    );
  }
  const lines = query.stdout.split('\n').filter((line) => line.startsWith('installed '));
  const present = new Set(lines.flatMap((line) => namesIn(line.slice('installed '.length))));
  return packages.filter((name) => !present.has(name));
}

/** Names separated by commas, each perhaps with a version: `containerd.io, containerd, runc (= 1.3.0)`. */
function namesIn(list: string): readonly string[] {
  return list.split(',').map((item) => item.trim().replace(/ .*$/, ''));
}

async function installUnlessDone(packages: readonly string[], apt: Apt, report: Report): Promise<void> {
  let waitingFor: string | undefined;
  for (;;) {
    apt.signal?.throwIfAborted();
    using lock = ExclusiveLock.tryAcquire(apt.lockFile, 'installing packages');
    if (lock === undefined) {
      const holder = ExclusiveLock.lastHolder(apt.lockFile);
      if (holder !== waitingFor) report.notice(`waiting for another installation: ${holder}`);
      waitingFor = holder;
      await sleep(pollMs, undefined, apt.signal && { signal: apt.signal });
    } else {
      const missing = await findMissing(packages, apt.environment);
      if (missing.length > 0) await install(missing, apt, report);
      return;
    }
  }
}

/** The list of packages may be missing or old, or an earlier dpkg interrupted: seen to only if the first try fails. */
async function install(packages: readonly string[], apt: Apt, report: Report): Promise<void> {
  const command = ['install', '--yes', '--no-install-recommends', ...packages];
  const first = await aptGet(command, apt, report);
  if (!first.failed) return;
  report.doing('dpkg --configure --pending');
  await execa('dpkg', ['--configure', '--pending'], { ...settings(apt), reject: false });
  const update = await aptGet(['update'], apt, report);
  const second = await aptGet(command, apt, report);
  if (!second.failed) return;
  const output = [...update.tail, ...second.tail].slice(-lastLines);
  throw new PackagesError([`apt-get can't install ${packages.join(', ')}:`, ...output].join('\n  '), {
    cause: second.cause,
  });
}

interface AptResult {
  readonly failed: boolean;
  /** The last lines of what it printed. */
  readonly tail: readonly string[];
  readonly cause: unknown;
}

/** apt-get waits for dpkg's lock by itself, but fails at once when another `apt-get update` is at work. */
async function aptGet(command: readonly string[], apt: Apt, report: Report): Promise<AptResult> {
  const deadline = performance.now() + lockTimeoutSeconds * 1000;
  for (;;) {
    const run = execa('apt-get', [`--option=DPkg::Lock::Timeout=${lockTimeoutSeconds}`, '--quiet', ...command], {
      ...settings(apt),
      all: true,
      reject: false,
    });
    for await (const line of run.iterable({ from: 'all' })) report.doing(line);
    const result = await run;
    const tail = result.all.split('\n').slice(-lastLines);
    const locked = result.failed && tail.some((line) => line.includes('Could not get lock'));
    if (!locked || performance.now() > deadline) return { failed: result.failed, tail, cause: result };
    report.doing('waiting for another apt-get');
    await sleep(pollMs, undefined, apt.signal && { signal: apt.signal });
  }
}

/** No signal: dpkg interrupted half-way leaves a system that has to be repaired. */
function settings({ environment }: Apt) {
  return {
    env: { ...environment, DEBIAN_FRONTEND: 'noninteractive' },
    extendEnv: false,
    stdin: 'ignore',
    cleanup: false,
  } as const;
}
