import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { attachedFiles } from '../../../tools/cluster/volumes.ts';

/** What a cluster might change on its host, as sorted lines that can be compared. */
export interface HostState {
  readonly files: readonly string[];
  readonly mounts: readonly string[];
  /** The files that loop devices have. */
  readonly loopFiles: readonly string[];
  readonly sysctls: readonly string[];
  readonly links: readonly string[];
  readonly networkNamespaces: readonly string[];
  readonly cgroups: readonly string[];
}

/** Where a container runtime, a kubelet, CNI plugins and image builders leave what they make. */
const watchedFolders = ['/run', '/var/lib', '/var/log', '/var/cache', '/etc', '/opt'];
const watchedDepth = 4;

/** What they call it: everything else changes there because of others. */
const traces = /buildah|cni|containe|coredns|echoperator|etcd|kube|netns|\/pods|runc|volumes|xtables/;

/** Change by themselves. */
const volatileSysctls = [
  /^kernel\/random\//,
  /^kernel\/ns_last_pid$/,
  /^kernel\/pty\/nr$/,
  /^net\/netfilter\/nf_conntrack_count$/,
  /^net\/ipv[46]\/(conf|neigh)\/eo-/,
];

/** Reads the host as it is now. */
export async function hostState(): Promise<HostState> {
  const files = await Promise.all(watchedFolders.map((folder) => pathsBelow(folder, watchedDepth)));
  const mounts = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').map((line) => line.split(' ')[4] ?? '');
  const sysctls = await Promise.all(['kernel', 'vm', 'net', 'user'].map((folder) => readSysctls(folder)));
  return {
    files: files
      .flat()
      .filter((path) => traces.test(path))
      .sort(),
    mounts: mounts.sort(),
    loopFiles: (await attachedFiles()).toSorted(),
    sysctls: sysctls.flat().sort(),
    links: (await readdir('/sys/class/net')).sort(),
    networkNamespaces: await readdir('/run/netns').catch(() => []),
    cgroups: (await pathsBelow('/sys/fs/cgroup', 6)).filter(
      (path) => path.includes('echoperator') || path.includes('kube'),
    ),
  };
}

async function pathsBelow(folder: string, depth: number): Promise<string[]> {
  if (depth === 0) return [];
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const nested = await Promise.all(
    entries.map(async (entry) => {
      const path = join(folder, entry.name);
      return [path, ...(entry.isDirectory() ? await pathsBelow(path, depth - 1) : [])];
    }),
  );
  return nested.flat();
}

async function readSysctls(folder: string): Promise<string[]> {
  const entries = await readdir(join('/proc/sys', folder), { withFileTypes: true }).catch(() => []);
  const lines = await Promise.all(
    entries.map(async (entry) => {
      const path = `${folder}/${entry.name}`;
      if (entry.isDirectory()) return readSysctls(path);
      if (volatileSysctls.some((pattern) => pattern.test(path))) return [];
      const value = await readFile(join('/proc/sys', path), 'utf8').catch(() => 'unreadable');
      return [`${path} = ${value.trim()}`];
    }),
  );
  return lines.flat();
}

/** The processes that mention `text` in their command line, this one excepted. */
export async function processesMentioning(text: string): Promise<readonly string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  const commands = await Promise.all(
    pids.map(async (pid) => {
      const command = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).replaceAll('\0', ' ');
      return command.includes(text) ? [`${pid} ${command}`] : [];
    }),
  );
  return commands.flat();
}
