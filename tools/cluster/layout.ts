import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { cacheFolder } from '../cache-folder.ts';
import type { ControlPlaneProgram } from './control-plane-program.ts';
import { UsageError } from './errors.ts';

/** The folders that each node replaces with its own. */
export const perNodeFolders = ['/run', '/var/lib', '/var/log'] as const;

/** The longest path of a Unix socket on Linux. */
const maxSocketPath = 107;

/** The paths and names of everything in one cluster. They follow from the cluster's name and the cache folder. */
export interface Layout {
  readonly name: string;
  /**
   * Six hex digits of a hash, part of the names of links and cgroups, which must be short and unique on the machine.
   * The hash is of the folder, because another user's cache may contain a cluster with the same name.
   */
  readonly id: string;
  /** The folder that contains everything that the cluster writes on the host's disk. */
  readonly folder: string;
  /** The name of the host's link to the cluster. At most 15 characters. */
  readonly hostLink: string;
  /** The cluster's folder in every cgroup hierarchy, without a leading slash. */
  readonly cgroup: string;
  readonly stateFile: string;
  readonly lockFile: string;
  readonly logs: string;
  readonly pki: string;
  readonly kubeconfigs: string;
  readonly adminKubeconfig: string;
  readonly auditLog: string;
  /** The folder with a file for each network namespace, by which a process enters it. */
  readonly namespaces: string;
}

/** One node's part of the layout. */
export interface NodeLayout {
  readonly name: string;
  readonly folder: string;
  /** The node's /run. It is emptied when the node starts, as on a real machine. */
  readonly run: string;
  /** The node's /var/lib. */
  readonly varLib: string;
  /** The node's /var/log. */
  readonly varLog: string;
  /**
   * The files of the node's volumes. The node sees them under the same path as the host, so the path of a loop device's
   * file identifies the node.
   */
  readonly volumes: string;
  readonly namespace: string;
  /** The cgroup of the node's pods. */
  readonly cgroup: string;
  /**
   * The cgroup of the node's own processes. It is separate because under cgroup v2 a group with children has no
   * processes.
   */
  readonly systemCgroup: string;
  /** containerd's socket, as a path on the host. */
  readonly containerdSocket: string;
}

/** Returns the folder that contains a folder for each cluster. */
export const clustersFolder = (): string => join(cacheFolder(), 'clusters');

/** @throws UsageError for an invalid name, or a cache folder that nodes cannot see */
export function layoutOf(name: string): Layout {
  if (!/^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$/.test(name)) {
    throw new UsageError(
      `--name: got "${name}", takes 1 to 20 lower-case letters, digits and "-" ` +
        'that start with a letter and do not end with "-"',
    );
  }
  const folder = join(clustersFolder(), name);
  const hidden = perNodeFolders.find((path) => folder.startsWith(`${path}/`));
  if (hidden !== undefined) {
    throw new UsageError(
      `${folder} is below ${hidden}, which each node replaces with its own: set XDG_CACHE_HOME to another folder`,
    );
  }
  const id = createHash('sha256').update(folder).digest('hex').slice(0, 6);
  return {
    name,
    id,
    folder,
    hostLink: `eo-${id}`,
    cgroup: `echoperator-${id}`,
    stateFile: join(folder, 'cluster.json'),
    lockFile: join(clustersFolder(), `${name}.lock`),
    logs: join(folder, 'logs'),
    pki: join(folder, 'pki'),
    kubeconfigs: join(folder, 'kubeconfigs'),
    adminKubeconfig: join(folder, 'kubeconfigs', 'admin'),
    auditLog: join(folder, 'logs', 'audit.log'),
    namespaces: join(folder, 'netns'),
  };
}

/** The network namespace of the control plane. */
export const controlPlaneNamespace = (layout: Layout): string => join(layout.namespaces, 'control-plane');

/** The cgroup of a program of the control plane. */
export const controlPlaneCgroup = (layout: Layout, program: ControlPlaneProgram): string =>
  `${layout.cgroup}/control-plane/${program}`;

/** @throws UsageError if the cache's path is too long for a node's socket */
export function nodeLayout(layout: Layout, name: string): NodeLayout {
  const folder = join(layout.folder, name);
  const run = join(folder, 'run');
  const containerdSocket = join(run, 'containerd/containerd.sock');
  if (containerdSocket.length > maxSocketPath) {
    throw new UsageError(
      `${containerdSocket} is longer than ${maxSocketPath} characters, the limit for a socket: ` +
        'set XDG_CACHE_HOME to a shorter path',
    );
  }
  return {
    name,
    folder,
    run,
    varLib: join(folder, 'var-lib'),
    varLog: join(folder, 'var-log'),
    volumes: join(folder, 'volumes'),
    namespace: join(layout.namespaces, name),
    cgroup: `${layout.cgroup}/${name}`,
    systemCgroup: `${layout.cgroup}/${name}-system`,
    containerdSocket,
  };
}

/** Returns node1, node2 and so on. */
export const nodeNames = (count: number): readonly string[] => Array.from({ length: count }, (_, i) => `node${i + 1}`);
