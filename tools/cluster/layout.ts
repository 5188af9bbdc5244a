import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { cacheFolder } from '../cache-folder.ts';
import { UsageError } from './errors.ts';
import type { ControlPlaneProgram } from './state.ts';

/** Where a node sees folders of its own in the place of the host's. */
export const hiddenFolders = ['/run', '/var/lib', '/var/log'] as const;

/** The longest path that a Unix socket can have on Linux. */
const maxSocketPath = 107;

/** Where everything of one cluster is, and how it is called: all of it follows from the cluster's name and the cache. */
export interface Layout {
  readonly name: string;
  /**
   * Six hex digits of the folder's hash: what links and cgroups, whose names are short or shared, are called by. Of the
   * folder's and not of the name's, because another user's cache may hold a cluster of the same name.
   */
  readonly id: string;
  /** Everything that the cluster writes on the host's disk. */
  readonly folder: string;
  /** The host's one link; at most 15 characters. */
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
  /** The network namespaces, as files to enter them by. */
  readonly namespaces: string;
}

/** One node's part of the layout. */
export interface NodeLayout {
  readonly name: string;
  readonly folder: string;
  /** What the node sees as /run, emptied when it starts, as on a machine that is switched on. */
  readonly run: string;
  /** What the node sees as /var/lib. */
  readonly varLib: string;
  /** What the node sees as /var/log. */
  readonly varLog: string;
  /**
   * The files of the node's volumes, which it sees under the same path: so the path of a file that a loop device has
   * says on the host too which node it is of.
   */
  readonly volumes: string;
  readonly namespace: string;
  /** The node's pods. */
  readonly cgroup: string;
  /** The node's own processes: beside the pods' group, because under cgroup v2 a group with children has none itself. */
  readonly systemCgroup: string;
  /** containerd's socket, as the host sees it. */
  readonly containerdSocket: string;
}

/** The folder that holds a folder for each cluster. */
export const clustersFolder = (): string => join(cacheFolder(), 'clusters');

/** @throws UsageError for a name that can't be one, or a cache that a node could not see */
export function layoutOf(name: string): Layout {
  if (!/^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$/.test(name)) {
    throw new UsageError(
      `--name: got "${name}", takes 1 to 20 lower-case letters, digits and "-", a letter first and no "-" last`,
    );
  }
  const folder = join(clustersFolder(), name);
  const hidden = hiddenFolders.find((path) => folder.startsWith(`${path}/`));
  if (hidden !== undefined) {
    throw new UsageError(
      `${folder} is below ${hidden}, of which each node has its own: set XDG_CACHE_HOME to another one`,
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

/** The network namespace of the API server and its companions. */
export const controlPlaneNamespace = (layout: Layout): string => join(layout.namespaces, 'control-plane');

/** The cgroup of one of the control plane's programs. */
export const controlPlaneCgroup = (layout: Layout, program: ControlPlaneProgram): string =>
  `${layout.cgroup}/control-plane/${program}`;

/** @throws UsageError where the cache's path is so long that a node's socket can't be made */
export function nodeLayout(layout: Layout, name: string): NodeLayout {
  const folder = join(layout.folder, name);
  const run = join(folder, 'run');
  const containerdSocket = join(run, 'containerd/containerd.sock');
  if (containerdSocket.length > maxSocketPath) {
    throw new UsageError(
      `${containerdSocket} is longer than the ${maxSocketPath} characters of a socket's path: set XDG_CACHE_HOME to a shorter one`,
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

/** node1, node2 … */
export const nodeNames = (count: number): readonly string[] => Array.from({ length: count }, (_, i) => `node${i + 1}`);
