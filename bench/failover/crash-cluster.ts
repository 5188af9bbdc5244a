import { join } from 'node:path';
import type { Client } from '@echoperator/runtime';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { HttpClient } from '../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../packages/runtime/src/client/transport.ts';
import {
  Cluster,
  ClusterError,
  removeClusterOnExit,
  UnsupportedMachineError,
  type Watchdog,
} from '../../tools/cluster/index.ts';
import { PackagesError } from '../../tools/debian.ts';
import { buildImage, ImageError } from '../../tools/release/index.ts';
import { benchUserAgent, namespace } from '../api-server.ts';
import type { Operator } from '../operators.ts';
import { staticImage } from '../peers/image.ts';
import { TurnError } from '../running-operator.ts';
import type { RunContext } from '../turns.ts';
import type { Electing } from './elections.ts';

const clusterName = 'bench';

/** The errors of a machine that cannot run the cluster. */
const refusals = [ClusterError, UnsupportedMachineError, ImageError, PackagesError] as const;

/** Without the Job controller: 20 pods per second would be an additional load. */
const flags = { 'controller-manager': ['--controllers=*,-job-controller'] } as const;

/** Gives the namespace's service accounts all rights, as on the API servers of the other turns. */
const prerequisites = `
apiVersion: v1
kind: Namespace
metadata: {name: ${namespace}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: operators}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: 'system:serviceaccounts:${namespace}'}]
`;

/**
 * A real cluster of two nodes with the CRDs and the operators' images. It is removed when this process ends, even by
 * SIGKILL.
 */
export class CrashCluster {
  readonly cluster: Cluster;
  /** Has an administrator's rights. */
  readonly client: Client;
  readonly transport: Transport;
  readonly #images: ReadonlyMap<string, string>;
  readonly #watchdog: Watchdog;

  private constructor(cluster: Cluster, transport: Transport, images: ReadonlyMap<string, string>, watchdog: Watchdog) {
    this.cluster = cluster;
    this.transport = transport;
    this.client = new HttpClient(transport, benchUserAgent);
    this.#images = images;
    this.#watchdog = watchdog;
  }

  /** @throws TurnError if the cluster cannot be brought up */
  static async up(who: readonly Electing[], context: RunContext): Promise<CrashCluster> {
    try {
      return await CrashCluster.#up(who, context);
    } catch (cause) {
      if (!refusals.some((refusal) => cause instanceof refusal)) throw cause;
      throw new TurnError(`the cluster for the crashes cannot be brought up: ${String(cause)}`, { cause });
    }
  }

  static async #up(who: readonly Electing[], { folder, signal }: RunContext): Promise<CrashCluster> {
    const images = [];
    for (const { operator } of who) images.push({ of: operator.name, ...(await imageOf(operator, folder, signal)) });
    const watchdog = await removeClusterOnExit(clusterName);
    try {
      // A killed run may have left a cluster.
      await Cluster.down(clusterName, signal);
      const cluster = await Cluster.up({ name: clusterName, nodes: 2, flags, signal });
      for (const { archive } of images) await cluster.loadImage(archive);
      const crds = join(import.meta.dirname, '../../crds');
      await cluster.kubectl(['apply', '--server-side', `--filename=${crds}`]);
      await cluster.kubectl(['apply', '--server-side', '--filename=-'], prerequisites);
      await cluster.kubectl(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s']);
      const connection = await kubeconfigConnection(cluster.kubeconfigPath);
      const transport = new Transport(connection, { userAgent: benchUserAgent });
      return new CrashCluster(cluster, transport, new Map(images.map(({ of, name }) => [of, name])), watchdog);
    } catch (error) {
      await Cluster.down(clusterName);
      await watchdog.release();
      throw error;
    }
  }

  /** Returns the name of the operator's image. */
  imageOf({ name }: Operator): string {
    const image = this.#images.get(name);
    if (image === undefined) throw new RangeError(`the image of ${name} was not loaded`);
    return image;
  }

  async down(): Promise<void> {
    await this.transport.close();
    await this.cluster.down();
    await this.#watchdog.release();
  }
}

/** Builds an operator's image. Ours is the released one. */
const imageOf = ({ name, command: [program] }: Operator, folder: string, signal: AbortSignal) =>
  name === 'echoperator' ? buildImage({ signal }) : staticImage(name, program, folder, signal);
