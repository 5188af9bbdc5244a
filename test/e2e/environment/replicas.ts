import { text } from 'node:stream/consumers';
import type { Client } from '@echoperator/runtime';
import { Lease, Pod } from '@echoperator/runtime/kinds';
import type { HttpRequest, Transport } from '../../../packages/runtime/src/client/transport.ts';
import { eventually } from '../../../testkit/eventually.ts';

type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];

/** A release, and how to reach its pods. */
export interface ReplicasOptions {
  readonly client: Client;
  readonly transport: Transport;
  readonly namespace: string;
  /** The chart's full name, which is also the Lease's name. */
  readonly fullName: string;
  readonly metrics: { readonly port: number; readonly path: string };
}

/** The holder of the Lease. */
export interface Holder {
  /** Empty if nobody holds the Lease. */
  readonly identity: string;
  /** The part of the identity before the uuid. */
  readonly pod: string;
  /** The number of changes of the holder. */
  readonly transitions: number;
}

/** How long a replica may take to become ready, including the kubelet's backoff after a restart. */
const settledTimeoutMs = 120_000;

/** The pods of a release of the operator, and their leader. */
export class Replicas {
  readonly #options: ReplicasOptions;

  constructor(options: ReplicasOptions) {
    this.#options = options;
  }

  get namespace(): string {
    return this.#options.namespace;
  }

  /** Returns all pods, including terminating ones. */
  async pods(): Promise<readonly Pod[]> {
    const { client, namespace } = this.#options;
    const labelSelector = 'app.kubernetes.io/component=operator';
    return (await client.list(Pod, { namespace, labelSelector })).items;
  }

  async pod(name: string): Promise<Pod> {
    return this.#options.client.get(Pod, { namespace: this.#options.namespace, name });
  }

  async holder(): Promise<Holder> {
    const { client, namespace, fullName } = this.#options;
    const { spec } = await client.get(Lease, { namespace, name: fullName });
    const identity = spec?.holderIdentity ?? '';
    const pod = identity.slice(0, Math.max(0, identity.lastIndexOf('_')));
    return { identity, pod, transitions: spec?.leaseTransitions ?? 0 };
  }

  /** Waits until another replica holds the Lease. */
  async holderOtherThan(before: Holder): Promise<Holder> {
    return eventually(
      `a leader other than ${before.identity}`,
      async () => {
        const now = await this.holder();
        return now.identity !== '' && now.identity !== before.identity && now;
      },
      60_000,
    );
  }

  /**
   * Waits until there are so many pods, all of them ready, and just one of them leads: by the Lease, by its own metric
   * and by its log. Returns that one.
   */
  async settled(count: number): Promise<Pod> {
    return eventually(`${count} replicas, of which one leads`, () => this.#onlyLeader(count), settledTimeoutMs);
  }

  async #onlyLeader(count: number): Promise<Pod> {
    const pods = await this.pods();
    const found = pods.map((pod) => `${pod.metadata.name}${isReady(pod) ? '' : ' (not ready)'}`).join(', ');
    if (pods.length !== count || !pods.every(isReady)) throw new Error(`${pods.length} pods: ${found}`);
    const { pod: name, identity } = await this.holder();
    const leader = pods.find(({ metadata }) => metadata.name === name);
    if (leader === undefined) throw new Error(`the holder is ${identity}, and the pods are ${found}`);
    for (const pod of pods) {
      const status = await this.#masterStatus(pod);
      const expected = pod === leader ? 1 : 0;
      if (status !== expected) {
        throw new Error(
          `the holder is ${identity}, and ${pod.metadata.name}'s leader_election_master_status ${status}`,
        );
      }
    }
    if (!(await this.#saysThatItLeads(leader, identity)))
      throw new Error(`the log of ${name} does not say that it leads`);
    return leader;
  }

  async #masterStatus(pod: Pod): Promise<number | undefined> {
    const { metrics, fullName } = this.#options;
    const shown = await this.#text(`${pathOf(pod)}:${metrics.port}/proxy${metrics.path}`);
    const line = new RegExp(`^leader_election_master_status\\{.*name="${fullName}".*\\} (\\d)$`, 'm').exec(shown);
    return line?.[1] === undefined ? undefined : Number(line[1]);
  }

  async #saysThatItLeads(pod: Pod, identity: string): Promise<boolean> {
    const lines = await this.#text(`${pathOf(pod)}/log`, 'container=operator');
    return lines
      .split('\n')
      .some((line) => line.includes(`"identity":"${identity}"`) && line.includes('"msg":"leading"'));
  }

  async #text(path: string, query?: HttpRequest['query']): Promise<string> {
    return text(
      await this.#options.transport.stream({ method: 'GET', path, query, signal: AbortSignal.timeout(10_000) }),
    );
  }
}

const pathOf = ({ metadata }: Pod): string => `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`;

const isReady = ({ metadata, status }: Pod): boolean =>
  metadata.deletionTimestamp === undefined &&
  (status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false);

/** The status of the operator's container. */
export function containerOf(pod: Pod): ContainerStatus {
  const container = pod.status?.containerStatuses?.[0];
  if (container === undefined) throw new Error(`no container of ${pod.metadata.name} has a status`);
  return container;
}
