import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, rm, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { ensureDebianPackages } from '../debian.ts';
import { withExclusiveLock } from '../exclusive-lock.ts';
import { runSteps, type Step, standardDisplay } from '../progress.ts';
import { addressesOf } from './addresses.ts';
import { makeCredentials } from './certificates.ts';
import { type Cgroups, detectCgroups, findCgroup, killAll, processesIn, removeCgroup } from './cgroups.ts';
import { isApiServerReady, startControlPlane, startProgram, waitUntilApiServerReady } from './control-plane.ts';
import type { ControlPlaneFlags, ControlPlaneProgram } from './control-plane-program.ts';
import { ClusterError, requireRootOnLinux, UsageError } from './errors.ts';
import { baseImageArchives } from './images.ts';
import { kubectl } from './kubectl.ts';
import { controlPlaneCgroup, type Layout, layoutOf, nodeLayout, nodeNames } from './layout.ts';
import { makeNetwork, removeNetwork, setNodeLink } from './network.ts';
import { allowRegistryWithoutTls, importImage, killNode, startNode } from './node.ts';
import { pollUntilSolved } from './poll-until-solved.ts';
import { findPrograms, type Programs } from './programs.ts';
import { type ClusterState, readState, writeState } from './state.ts';
import { waitUntilVolumesDetached } from './volumes.ts';

/** The cluster to bring up. */
export interface UpOptions {
  /** Clusters with different names can run at the same time. Default `demo`. */
  readonly name?: string;
  /** 1 to 5. Default 2. */
  readonly nodes?: number;
  /** Additional arguments of the control plane's programs. Default none. */
  readonly flags?: ControlPlaneFlags;
  readonly signal?: AbortSignal;
}

const maxNodes = 5;

/** The time limit until all nodes are Ready. */
const nodesTimeoutMs = 120_000;

/**
 * A real Kubernetes cluster on this machine: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and CoreDNS;
 * on each node containerd, kubelet, kube-proxy and a volume driver. It has its own network, mount and process
 * namespaces, and no route to other networks. The host sees one network link and the cluster's cgroups.
 */
export class Cluster {
  readonly name: string;
  readonly nodes: readonly string[];
  readonly kubeconfigPath: string;
  readonly auditLog: string;
  /** The host's address in the cluster's network. Nodes and pods reach servers that listen on it. */
  readonly hostAddress: string;
  readonly #layout: Layout;
  readonly #state: ClusterState;
  readonly #programs: Programs;
  readonly #cgroups: Cgroups;

  private constructor(layout: Layout, state: ClusterState, programs: Programs, cgroups: Cgroups) {
    this.name = layout.name;
    this.nodes = nodeNames(state.nodes);
    this.kubeconfigPath = layout.adminKubeconfig;
    this.auditLog = layout.auditLog;
    this.hostAddress = addressesOf(state.network).host;
    this.#layout = layout;
    this.#state = state;
    this.#programs = programs;
    this.#cgroups = cgroups;
  }

  /**
   * Brings the cluster up and returns when every node is ready. Keeps a running cluster with the same nodes and flags,
   * and replaces any other cluster of that name. Removes the cluster, except for its logs, if it fails.
   *
   * @throws UsageError for a bad name or number of nodes; UnsupportedMachineError; ClusterError if the cluster does not
   *   become ready; the signal's reason.
   */
  static async up({ name = 'demo', nodes = 2, flags = {}, signal }: UpOptions = {}): Promise<Cluster> {
    const layout = layoutOf(name);
    if (!Number.isInteger(nodes) || nodes < 1 || nodes > maxNodes) {
      throw new UsageError(`--nodes: got ${nodes}, takes 1 to ${maxNodes}`);
    }
    requireRootOnLinux();
    const context = { ...(signal && { signal }) };
    await ensureDebianPackages(undefined, context);
    const programs = await findPrograms(signal);
    const cgroups = await detectCgroups();
    return withExclusiveLock({ lockFile: layout.lockFile, purpose: `cluster ${name}: up`, signal }, async () => {
      const running = await findRunning(layout, programs, cgroups);
      if (running !== undefined && isDeepStrictEqual(shapeOf(running.#state), { nodes, flags })) return running;
      await remove(layout, cgroups);
      try {
        return await bringUp(layout, { nodes, flags }, programs, cgroups, signal);
      } catch (error) {
        await remove(layout, cgroups, { keepLogs: true });
        throw error;
      }
    });
  }

  /** Finds a running cluster. @throws ClusterError if no cluster with that name runs */
  static async find(name = 'demo'): Promise<Cluster> {
    const layout = layoutOf(name);
    requireRootOnLinux();
    const state = await readState(layout);
    if (state === undefined) {
      throw new ClusterError(
        `no cluster "${name}" is running: bring it up with \`npm run cluster -- up --name ${name}\``,
      );
    }
    return new Cluster(layout, state, await findPrograms(undefined), await detectCgroups());
  }

  /** Removes every trace of the cluster with that name, in any state. Does nothing if there is none. */
  static async down(name = 'demo', signal?: AbortSignal): Promise<void> {
    const layout = layoutOf(name);
    requireRootOnLinux();
    await withExclusiveLock({ lockFile: layout.lockFile, purpose: `cluster ${name}: down`, signal }, async () => {
      await remove(layout, await detectCgroups());
    });
  }

  /** @internal Used by {@link up}. */
  static of(layout: Layout, state: ClusterState, programs: Programs, cgroups: Cgroups): Cluster {
    return new Cluster(layout, state, programs, cgroups);
  }

  down(): Promise<void> {
    return Cluster.down(this.name);
  }

  /**
   * Runs kubectl as the cluster's administrator.
   *
   * @returns its output.
   * @throws ExecaError with kubectl's error output
   */
  kubectl(args: readonly string[], input?: string): Promise<string> {
    return kubectl(this.#layout, this.#programs, args, input);
  }

  /**
   * Loads an image on every node. A stopped node loads it when it starts.
   *
   * @param archive the path of a docker-archive or an OCI archive
   * @throws UsageError if the file does not exist
   */
  async loadImage(archive: string): Promise<void> {
    const isFile = await stat(archive).then(
      (found) => found.isFile(),
      () => false,
    );
    if (!isFile) throw new UsageError(`IMAGE.tar: got ${archive}, takes the path of an image archive`);
    await Promise.all(this.nodes.map((name) => this.#loadOnNode(name, resolve(archive))));
  }

  /** Lets the nodes pull images by HTTP from a registry on {@link hostAddress}. @param address host and port */
  async allowRegistryWithoutTls(address: string): Promise<void> {
    for (const name of this.nodes) await allowRegistryWithoutTls(nodeLayout(this.#layout, name), address);
  }

  /** Kills all processes of a node at once, like a power failure. The Node object becomes NotReady after about 15 s. */
  async killNode(name: string): Promise<void> {
    await killNode(this.#layout, this.#checkNode(name), this.#cgroups);
  }

  /** Starts a killed node, and does nothing if the node runs. Returns when containerd responds. */
  async startNode(name: string, signal?: AbortSignal): Promise<void> {
    const node = nodeLayout(this.#layout, this.#checkNode(name));
    if ((await processesIn(this.#cgroups, node.systemCgroup)).length > 0) return;
    await startNode(this.#layout, this.#state, name, this.#programs, this.#cgroups, signal);
    await this.#importPending(name);
  }

  /** Disconnects a node from the other nodes and the API server. Its pods keep running. */
  async cutNetwork(name: string): Promise<void> {
    await setNodeLink(this.#layout, this.#checkNode(name), 'down');
  }

  /** Undoes {@link cutNetwork}. */
  async restoreNetwork(name: string): Promise<void> {
    await setNodeLink(this.#layout, this.#checkNode(name), 'up');
  }

  /** Kills a program of the control plane. It stays stopped until {@link startProgram}. */
  async stopProgram(name: ControlPlaneProgram): Promise<void> {
    await killAll(this.#cgroups, controlPlaneCgroup(this.#layout, name));
  }

  /**
   * Starts a stopped program of the control plane, and does nothing if it runs. Does not wait until the program is
   * ready.
   *
   * @param flags additional arguments for this run, after those that the cluster was brought up with
   */
  async startProgram(name: ControlPlaneProgram, flags: readonly string[] = []): Promise<void> {
    await startProgram(name, this.#layout, this.#state, this.#programs, this.#cgroups, flags);
  }

  /** The host's process ids of a program of the control plane. */
  programProcesses(name: ControlPlaneProgram): Promise<readonly number[]> {
    return processesIn(this.#cgroups, controlPlaneCgroup(this.#layout, name));
  }

  /**
   * The host's process ids of a pod's container, for signals that do not come from the kubelet. Empty if no node runs
   * the container.
   *
   * @param id the container ID in the pod's status: `containerd://…`
   */
  async containerProcesses(id: string): Promise<readonly number[]> {
    const group = await findCgroup(this.#cgroups, this.#layout.cgroup, id.replace(/^containerd:\/\//, ''));
    return group === undefined ? [] : processesIn(this.#cgroups, group);
  }

  /** The host's process ids of the whole cluster. */
  processes(): Promise<readonly number[]> {
    return processesIn(this.#cgroups, this.#layout.cgroup);
  }

  /** Waits until the API server is ready. @throws ClusterError after two minutes */
  async waitUntilApiServerReady(signal?: AbortSignal): Promise<void> {
    await waitUntilApiServerReady(this.#layout, this.#programs, signal);
  }

  /** Waits until every node is Ready. @throws ClusterError after two minutes */
  async waitUntilNodesReady(signal?: AbortSignal): Promise<void> {
    const notReady = new Set(this.nodes);
    const findProblem = async () => {
      for (const name of notReady) {
        if (!(await this.#isReady(name))) return `${name} is not Ready: see ${this.#layout.logs}/${name}-kubelet.log`;
        notReady.delete(name);
      }
      return undefined;
    };
    await pollUntilSolved(findProblem, { timeoutMs: nodesTimeoutMs, pollMs: 200, signal });
  }

  async #isReady(node: string): Promise<boolean> {
    const condition = '{.status.conditions[?(@.type=="Ready")].status}';
    return (
      (await this.kubectl(['get', 'node', node, '--ignore-not-found', `--output=jsonpath=${condition}`])) === 'True'
    );
  }

  #checkNode(name: string): string {
    if (this.nodes.includes(name)) return name;
    throw new UsageError(`NODE: got "${name}", takes one of ${this.nodes.join(', ')}`);
  }

  /** Loads an image on a running node, or saves it for the next start of a stopped one. */
  async #loadOnNode(name: string, archive: string): Promise<void> {
    const node = nodeLayout(this.#layout, name);
    if (existsSync(node.containerdSocket)) return importImage(node, archive, this.#programs);
    await mkdir(join(node.folder, 'pending-images'), { recursive: true });
    await copyFile(archive, join(node.folder, 'pending-images', randomUUID()));
  }

  async #importPending(name: string): Promise<void> {
    const node = nodeLayout(this.#layout, name);
    const pending = join(node.folder, 'pending-images');
    for (const archive of await readdir(pending).catch(() => [])) {
      await importImage(node, join(pending, archive), this.#programs);
      await rm(join(pending, archive));
    }
  }
}

/** The options that a running cluster must share with the requested one to be kept. */
type Shape = Pick<ClusterState, 'nodes' | 'flags'>;

const shapeOf = ({ nodes, flags }: ClusterState): Shape => ({ nodes, flags });

async function bringUp(
  layout: Layout,
  shape: Shape,
  programs: Programs,
  cgroups: Cgroups,
  signal: AbortSignal | undefined,
): Promise<Cluster> {
  const startedAtMs = performance.now();
  await mkdir(layout.logs, { recursive: true });
  const state: ClusterState = { ...shape, network: await makeNetwork(layout, shape.nodes, signal) };
  const cluster = Cluster.of(layout, state, programs, cgroups);
  const step = (title: string, run: () => Promise<void>): Step => ({
    title,
    run: async () => {
      signal?.throwIfAborted();
      await run();
    },
  });
  const display = standardDisplay();
  await runSteps(
    [
      step('certificates', () => makeCredentials(layout, state)),
      step('control plane', () => startControlPlane(layout, state, programs, cgroups, signal)),
      step('base images', async () => {
        await baseImageArchives(signal);
      }),
      step(shape.nodes === 1 ? '1 node' : `${shape.nodes} nodes`, async () => {
        await Promise.all(cluster.nodes.map((node) => startNode(layout, state, node, programs, cgroups, signal)));
        for (const archive of await baseImageArchives(signal)) await cluster.loadImage(archive);
        await cluster.waitUntilNodesReady(signal);
        // The API server rejects pods until this ServiceAccount exists.
        await cluster.kubectl(['wait', '--for=create', 'serviceaccount/default', '--timeout=60s']);
      }),
    ],
    display,
  );
  // The state is written last, so that a cluster whose start was interrupted is not used.
  await writeState(layout, state);
  display.line(`cluster ${layout.name} is ready after ${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`);
  return cluster;
}

/** Returns the cluster if all of its parts run. */
async function findRunning(layout: Layout, programs: Programs, cgroups: Cgroups): Promise<Cluster | undefined> {
  const state = await readState(layout);
  if (state === undefined || !(await isApiServerReady(layout, programs))) return undefined;
  for (const name of nodeNames(state.nodes)) {
    if ((await processesIn(cgroups, nodeLayout(layout, name).systemCgroup)).length === 0) return undefined;
  }
  const cluster = Cluster.of(layout, state, programs, cgroups);
  const ready = await cluster.waitUntilNodesReady().then(
    () => true,
    () => false,
  );
  return ready ? cluster : undefined;
}

/** Kills and removes every part of the cluster. Relies on the state of the machine, not on a state file. */
async function remove(layout: Layout, cgroups: Cgroups, { keepLogs = false } = {}): Promise<void> {
  await killAll(cgroups, layout.cgroup);
  await removeCgroup(cgroups, layout.cgroup);
  await waitUntilVolumesDetached(layout.folder);
  await removeNetwork(layout);
  for (const name of await readdir(layout.folder).catch(() => [])) {
    if (keepLogs && name === basename(layout.logs)) continue;
    await rm(join(layout.folder, name), { recursive: true, force: true });
  }
  if (!keepLogs) await rm(layout.folder, { recursive: true, force: true });
}
