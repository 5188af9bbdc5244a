import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ClusterError } from './errors.ts';

/**
 * The machine's cgroup hierarchies: one for each controller under v1, a single one under v2. Every process of a cluster
 * and its children are in one of the cluster's groups. Therefore a group lists the processes to kill even if their
 * parents are gone.
 */
export interface Cgroups {
  readonly version: 1 | 2;
  /** The mount points of all hierarchies. */
  readonly roots: readonly string[];
  /** The hierarchy from which a group's processes are read. */
  readonly trackingRoot: string;
}

/** The controllers that the kubelet requires, if the kernel has them. */
const controllers = ['cpu', 'cpuset', 'hugetlb', 'io', 'memory', 'pids'];

/** Finds the mounted cgroup hierarchies. @throws ClusterError on a machine without cgroups */
export async function detectCgroups(): Promise<Cgroups> {
  const mounts = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').map((line) => line.split(' '));
  const roots = (type: string): string[] =>
    mounts.flatMap((fields) => {
      const [root = '', mountPoint = ''] = fields.slice(3, 5);
      return fields[fields.indexOf('-') + 1] === type && root === '/' ? [mountPoint] : [];
    });
  const [v1, v2] = [roots('cgroup'), roots('cgroup2')];
  const pids = v1.find((root) => root.split('/').at(-1)?.split(',').includes('pids'));
  if (pids !== undefined) return { version: 1, roots: [...v1, ...v2], trackingRoot: pids };
  const [unified] = v2;
  if (unified === undefined) throw new ClusterError('this machine has no cgroups mounted at /sys/fs/cgroup');
  return { version: 2, roots: [unified], trackingRoot: unified };
}

/** Creates a group and its parents in every hierarchy. */
export async function makeCgroup(cgroups: Cgroups, group: string): Promise<void> {
  for (const root of cgroups.roots) {
    let folder = root;
    for (const part of group.split('/')) {
      if (cgroups.version === 2) await delegateControllers(folder);
      folder = join(folder, part);
      await mkdir(folder, { recursive: true });
      if (existsSync(join(folder, 'cpuset.cpus')) && cgroups.version === 1) await inheritCpus(folder);
    }
  }
}

/** Under v2 a group's children have only the controllers that the group delegates. */
async function delegateControllers(folder: string): Promise<void> {
  const available = new Set((await readFile(join(folder, 'cgroup.controllers'), 'utf8')).trim().split(' '));
  const delegated = new Set((await readFile(join(folder, 'cgroup.subtree_control'), 'utf8')).trim().split(' '));
  for (const controller of controllers) {
    if (!available.has(controller) || delegated.has(controller)) continue;
    await writeFile(join(folder, 'cgroup.subtree_control'), `+${controller}`);
  }
}

/** Under v1 a new cpuset is empty, and accepts no process until it has CPUs and memory nodes. */
async function inheritCpus(folder: string): Promise<void> {
  for (const file of ['cpuset.cpus', 'cpuset.mems']) {
    const own = join(folder, file);
    if ((await readFile(own, 'utf8')).trim() !== '') continue;
    await writeFile(own, await readFile(join(folder, '..', file), 'utf8'));
  }
}

/** Shell commands that move the shell into a group, in every hierarchy. */
export const enterCgroup = (cgroups: Cgroups, group: string): string =>
  cgroups.roots.map((root) => `echo $$ > '${join(root, group)}/cgroup.procs'`).join('\n');

/** Returns the processes in a group and its descendants. */
export async function processesIn(cgroups: Cgroups, group: string): Promise<readonly number[]> {
  const folder = join(cgroups.trackingRoot, group);
  const found: number[] = [];
  for (const below of [folder, ...(await foldersBelow(folder))]) {
    const text = await readFile(join(below, 'cgroup.procs'), 'utf8').catch(() => '');
    found.push(...text.split('\n').filter(Boolean).map(Number));
  }
  return found;
}

/** Finds the group with this name among the descendants of another. */
export async function findCgroup(cgroups: Cgroups, below: string, name: string): Promise<string | undefined> {
  const folder = (await foldersBelow(join(cgroups.trackingRoot, below))).find((path) => basename(path) === name);
  return folder === undefined ? undefined : relative(cgroups.trackingRoot, folder);
}

/** Kills every process in a group and its descendants, and waits until they are gone. */
export async function killAll(cgroups: Cgroups, group: string, signal?: AbortSignal): Promise<void> {
  for (;;) {
    const pids = await processesIn(cgroups, group);
    if (pids.length === 0) return;
    for (const pid of pids) kill(pid);
    await delay(20, undefined, { signal });
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has already exited.
  }
}

/** Removes a group and its descendants in every hierarchy. They must contain no process. */
export async function removeCgroup(cgroups: Cgroups, group: string): Promise<void> {
  for (const root of cgroups.roots) {
    const folder = join(root, group);
    if (!existsSync(folder)) continue;
    // Children come before their parents. A group can stay busy for a moment after its last process has exited.
    for (const below of [folder, ...(await foldersBelow(folder))].reverse()) await removeWhenFree(below);
  }
}

async function removeWhenFree(folder: string): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      await rmdir(folder);
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
      if ((error as NodeJS.ErrnoException).code !== 'EBUSY' || attempt === 250) throw error;
      await delay(20);
    }
  }
}

/** Parents before children. */
async function foldersBelow(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const below: string[] = [];
  for (const entry of entries) {
    if (!entry.isDirectory()) continue;
    const path = join(folder, entry.name);
    below.push(path, ...(await foldersBelow(path)));
  }
  return below;
}
