import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
import { cacheFolder } from './cache-folder.ts';
import { runOnce } from './exclusive-lock.ts';
import { type Display, type Report, runSteps, standardDisplay } from './progress.ts';

/** The Debian packages that the cluster needs in addition to a minimal installation. */
export const clusterPackages = [
  'btrfs-progs', // the filesystems of volumes: btrfs, mkfs.btrfs
  'buildah', // builds images without a daemon
  'busybox-static', // the program in the busybox and pause images
  'containernetworking-plugins', // CNI plugins for the pods' network
  'iproute2', // ip: namespaces and links
  'mount', // losetup, mount and umount: volumes
  'nftables', // nft, with which kube-proxy writes its rules
  'openssl', // the cluster's certificates
  'runc', // runs containers
  'util-linux', // nsenter, unshare
] as const;

/** The packages cannot be installed here, or apt failed. The message names the packages and says what to do. */
export class PackagesError extends Error {
  override readonly name = 'PackagesError';
}

export interface PackagesOptions {
  /** Aborts the wait for another installation. An installation that has started continues. */
  readonly signal?: AbortSignal;
  /** Shows the progress if anything has to be installed. Default: standard error. */
  readonly display?: Display;
  readonly environment?: NodeJS.ProcessEnv;
}

/** How long to wait while another package manager holds the locks of dpkg or apt. */
const lockTimeoutSeconds = 600;
const pollMs = 1000;
const lastLines = 15;

/**
 * Installs the missing packages. Requires root only if a package is missing.
 *
 * Guarantee: any number of processes may call this at the same time, also next to other users of apt. One installs, the
 * others wait.
 *
 * @throws PackagesError on a system without dpkg, if a package is missing and the user is not root, or if apt-get fails
 */
export async function ensureDebianPackages(
  packages: readonly string[] = clusterPackages,
  { signal, display = standardDisplay(), environment = process.env }: PackagesOptions = {},
): Promise<void> {
  const missing = await findMissing(packages, environment);
  if (missing.length === 0) return;
  if (process.getuid?.() !== 0) {
    throw new PackagesError(
      `the Debian packages ${missing.join(', ')} are missing, and only root can install them: ` +
        `sudo apt-get install --no-install-recommends ${missing.join(' ')}`,
    );
  }
  const lockFile = join(cacheFolder(environment), 'apt.lock');
  const run = (report: Report) => {
    const isDone = async () => (await findMissing(packages, environment)).length === 0;
    const onWait = (holder: string) => report.notice(`waiting for another installation: ${holder}`);
    return runOnce({ lockFile, purpose: 'installing packages', isDone, onWait, signal }, async () =>
      // Another process may have installed some of the packages.
      install(await findMissing(packages, environment), { environment, signal }, report),
    );
  };
  await runSteps([{ title: `Debian packages ${missing.join(', ')}`, run }], display);
}

interface Apt {
  readonly environment: NodeJS.ProcessEnv;
  readonly signal: AbortSignal | undefined;
}

/**
 * A package that another package provides is not missing: installing runc next to Docker's containerd.io would remove
 * Docker.
 */
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
      `the packages ${packages.join(', ')} can be installed only on Debian or a derivative: ` +
        'use such a machine, or another cluster (KUBECONFIG)',
    );
  }
  const lines = query.stdout.split('\n').filter((line) => line.startsWith('installed '));
  const present = new Set(lines.flatMap((line) => namesIn(line.slice('installed '.length))));
  return packages.filter((name) => !present.has(name));
}

/** Parses names separated by commas, with optional versions: `containerd.io, containerd, runc (= 1.3.0)`. */
function namesIn(list: string): readonly string[] {
  return list.split(',').map((item) => item.trim().replace(/ .*$/, ''));
}

/** If the first attempt fails, repairs an interrupted dpkg, updates the package lists and tries again. */
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
  throw new PackagesError([`apt-get cannot install ${packages.join(', ')}:`, ...output].join('\n  '), {
    cause: second.cause,
  });
}

interface AptResult {
  readonly failed: boolean;
  /** The last lines of apt-get's output. */
  readonly tail: readonly string[];
  readonly cause: unknown;
}

/**
 * Runs apt-get. It waits for dpkg's lock itself, but fails at once during another `apt-get update`, so that is retried.
 */
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
    await sleep(pollMs, undefined, { signal: apt.signal });
  }
}

/** The settings include no signal, because an interrupted dpkg leaves a broken system. */
function settings({ environment }: Apt) {
  return {
    env: { ...environment, DEBIAN_FRONTEND: 'noninteractive' },
    extendEnv: false,
    stdin: 'ignore',
    cleanup: false,
  } as const;
}
