import { join } from 'node:path';
import { HttpClient } from '../../src/runtime/client/http-client.ts';
import { kubeconfigConnection } from '../../src/runtime/client/index.ts';
import { Transport } from '../../src/runtime/client/transport.ts';
import type { Client } from '../../src/runtime/index.ts';
import {
  Cluster,
  ClusterError,
  removeWhenWeDie,
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

/** What a machine may lack for a cluster. */
const refusals = [ClusterError, UnsupportedMachineError, ImageError, PackagesError] as const;

/** Jobs stay as they are made: twenty pods a second would be a load of their own. */
const flags = { 'controller-manager': ['--controllers=*,-job-controller'] } as const;

/** The service accounts of the namespace may do everything, as on the API servers of the other turns. */
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

/** A real cluster of two nodes, with the CRDs and the operators' images. It goes when this process ends, however. */
export class CrashCluster {
  readonly cluster: Cluster;
  /** As an administrator. */
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

  /** @throws TurnError where it can't be brought up. */
  static async up(who: readonly Electing[], context: RunContext): Promise<CrashCluster> {
    try {
      return await CrashCluster.#up(who, context);
    } catch (cause) {
      if (!refusals.some((refusal) => cause instanceof refusal)) throw cause;
      throw new TurnError(`there is no cluster to kill leaders in: ${String(cause)}`, { cause });
    }
  }

  static async #up(who: readonly Electing[], { folder, signal }: RunContext): Promise<CrashCluster> {
    const images = [];
    for (const { operator } of who) images.push({ of: operator.name, ...(await imageOf(operator, folder, signal)) });
    const watchdog = await removeWhenWeDie(clusterName);
    try {
      // What a killed run has left under the name.
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

  /** The image that a pod of the operator asks for. */
  imageOf({ name }: Operator): string {
    const image = this.#images.get(name);
    if (image === undefined) throw new RangeError(`no image of ${name} has been loaded`);
    return image;
  }

  async down(): Promise<void> {
    await this.transport.close();
    await this.cluster.down();
    await this.#watchdog.release();
  }
}

/** Ours as users have it. */
const imageOf = ({ name, command: [program] }: Operator, folder: string, signal: AbortSignal) =>
  name === 'echoperator' ? buildImage({ signal }) : staticImage(name, program, folder, signal);
