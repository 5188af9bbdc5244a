import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { layoutOf } from '../../../tools/cluster/layout.ts';
import { attachedFiles } from '../../../tools/cluster/volumes.ts';

/**
 * Returns a line for everything on this host that belongs to clusters with these names. Finds it by names that only
 * these clusters use, so that other programs do not affect the result.
 */
export async function tracesOf(...names: readonly string[]): Promise<readonly string[]> {
  const traces: string[] = [];
  for (const name of names) {
    const { folder, lockFile, hostLink, cgroup } = layoutOf(name);
    const isInside = (path: string) => path.startsWith(`${folder}/`);
    const links = await readdir('/sys/class/net');
    const cgroups = await pathsBelow('/sys/fs/cgroup', 6);
    traces.push(
      ...(await processesMentioning(folder)).map((line) => `process ${line}`),
      ...(await mountPoints()).filter(isInside).map((path) => `mount ${path}`),
      ...(await attachedFiles()).filter(isInside).map((path) => `loop device on ${path}`),
      ...links.filter((link) => link === hostLink).map((link) => `link ${link}`),
      ...cgroups.filter((path) => basename(path) === cgroup).map((path) => `cgroup ${path}`),
      ...[folder, lockFile].filter((path) => existsSync(path)).map((path) => `file ${path}`),
    );
  }
  return traces;
}

/** Folders that container runtimes, kubelets, CNI plugins and image builders create by default. */
const places = [
  '/etc/cni',
  '/opt/cni',
  '/opt/containerd',
  '/run/cni',
  '/run/containerd',
  '/run/containers',
  '/run/netns',
  '/var/lib/cni',
  '/var/lib/containerd',
  '/var/lib/containers',
  '/var/lib/etcd',
  '/var/lib/kubelet',
  '/var/log/containers',
  '/var/log/pods',
];

/** Kernel settings that kubelet, kube-proxy and CNI plugins change. */
const settings = [
  'kernel/keys/root_maxbytes',
  'kernel/keys/root_maxkeys',
  'kernel/panic',
  'kernel/panic_on_oops',
  'net/bridge/bridge-nf-call-iptables',
  'net/ipv4/conf/all/forwarding',
  'net/ipv4/conf/all/route_localnet',
  'net/ipv4/conf/all/rp_filter',
  'net/ipv4/ip_forward',
  'net/netfilter/nf_conntrack_max',
  'net/netfilter/nf_conntrack_tcp_timeout_close_wait',
  'net/netfilter/nf_conntrack_tcp_timeout_established',
  'vm/overcommit_memory',
  'vm/panic_on_oom',
];

/** Returns the state of the host that a cluster must not change: the existence of folders, and kernel settings. */
export async function hostState(): Promise<readonly string[]> {
  const values = settings.map(async (name) => {
    const value = await readFile(join('/proc/sys', name), 'utf8').catch(() => 'none');
    return `${name} = ${value.trim()}`;
  });
  return [...places.filter((path) => existsSync(path)), ...(await Promise.all(values))];
}

async function mountPoints(): Promise<readonly string[]> {
  return (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').map((line) => line.split(' ')[4] ?? '');
}

async function pathsBelow(folder: string, depth: number): Promise<string[]> {
  if (depth === 0) return [];
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const nested = await Promise.all(
    entries
      .filter((entry) => entry.isDirectory())
      .map(async (entry) => {
        const path = join(folder, entry.name);
        return [path, ...(await pathsBelow(path, depth - 1))];
      }),
  );
  return nested.flat();
}

/** Returns the other processes with `text` in their command line. */
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
