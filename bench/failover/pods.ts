import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { Lease, Pod } from '@echoperator/runtime/kinds';
import { namespace } from '../api-server.ts';
import { syncedMark, TurnError, workers } from '../running-operator.ts';
import type { CrashCluster } from './crash-cluster.ts';
import type { Electing, LeaseKey, Standby } from './elections.ts';

const container = 'operator';
const replicas = 2;
const readyTimeoutMs = 120_000;

/** The leader of a group of pods. */
export interface Leader {
  readonly pod: string;
  /** When the leader acquired the Lease, in milliseconds since 1970, by its own clock. */
  readonly acquiredMs: number;
}

/** Two pods of an operator, one on each node, that contend for one Lease. */
export class Pods {
  readonly #who: Electing;
  readonly #standby: Standby;
  readonly #on: CrashCluster;
  readonly #name: string;
  readonly #lease: LeaseKey;
  #lostNode: string | undefined;

  constructor(who: Electing, standby: Standby, on: CrashCluster) {
    this.#who = who;
    this.#standby = standby;
    this.#on = on;
    this.#name = `${who.operator.name}-${standby}`;
    this.#lease = { namespace, name: this.#name };
  }

  /** Creates the pods. Returns the leader when the other pod stands by. @throws TurnError after two minutes */
  async start(signal: AbortSignal): Promise<Leader> {
    const { cluster } = this.#on;
    await cluster.kubectl(['apply', '--server-side', '--filename=-'], JSON.stringify(this.#deployment()));
    const late = performance.now() + readyTimeoutMs;
    for (;;) {
      const leader = await this.#settled();
      if (leader !== undefined) return leader;
      if (performance.now() > late) {
        const found = await cluster.kubectl(['get', 'pods', '--namespace', namespace, '--output=wide']);
        throw new TurnError(
          `${this.#name}: after ${readyTimeoutMs} ms no pod leads while the other stands by\n${found}`,
        );
      }
      await delay(500, undefined, { signal });
    }
  }

  async leader(): Promise<Leader> {
    const { spec } = await this.#on.client.get(Lease, this.#lease);
    const identity = spec?.holderIdentity ?? '';
    return {
      pod: identity.slice(0, Math.max(0, identity.lastIndexOf('_'))),
      acquiredMs: Date.parse(spec?.acquireTime ?? ''),
    };
  }

  /** Kills the container's process with SIGKILL from outside the pod. @returns when, in milliseconds since 1970 */
  async kill(pod: string): Promise<number> {
    const { status } = await this.#on.client.get(Pod, { namespace, name: pod });
    const pids = await this.#on.cluster.containerProcesses(status?.containerStatuses?.[0]?.containerID ?? '');
    if (pids.length === 0) throw new TurnError(`no process runs in ${pod}`);
    const killedMs = Date.now();
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    return killedMs;
  }

  /** Cuts the power of the pod's node, until {@link stop}. @returns when, in milliseconds since 1970 */
  async loseNode(pod: string): Promise<number> {
    const { spec } = await this.#on.client.get(Pod, { namespace, name: pod });
    if (spec?.nodeName === undefined) throw new TurnError(`${pod} has no node`);
    this.#lostNode = spec.nodeName;
    const lostMs = Date.now();
    await this.#on.cluster.killNode(spec.nodeName);
    return lostMs;
  }

  /** Starts a lost node again. Deletes the pods, the Echos and the Jobs. */
  async stop(signal: AbortSignal): Promise<void> {
    const { cluster } = this.#on;
    if (this.#lostNode !== undefined) await cluster.startNode(this.#lostNode, signal);
    const which = ['--namespace', namespace, '--ignore-not-found'];
    await cluster.kubectl(['delete', 'deployment', this.#name, ...which, '--cascade=foreground', '--timeout=120s']);
    for (const path of ['mmontes.io/v1alpha1/namespaces/bench/echos', 'batch/v1/namespaces/bench/jobs']) {
      await cluster.kubectl(['delete', `--raw=/apis/${path}`]);
    }
  }

  /** Returns the leader if one pod leads, the other stands by, and their caches have synced as far as they should. */
  async #settled(): Promise<Leader | undefined> {
    const { election } = this.#who;
    const { items } = await this.#on.client.list(Pod, { namespace, labelSelector: `app=${this.#name}` });
    if (items.length !== replicas || !items.every(isRunning)) return undefined;
    const logs = new Map<string, string>();
    for (const { metadata } of items) logs.set(metadata.name, await this.#log(metadata.name));
    const leaders = [...logs].filter(([, log]) => log.includes(election.leads) && log.includes(syncedMark));
    const others = [...logs].filter(([, log]) => !log.includes(election.leads));
    const standing = others.filter(
      ([, log]) => log.includes(election.contends) && (this.#standby === 'cold' || log.includes(syncedMark)),
    );
    return leaders.length === 1 && standing.length === replicas - 1 ? this.leader() : undefined;
  }

  async #log(pod: string): Promise<string> {
    const path = `/api/v1/namespaces/${namespace}/pods/${pod}/log`;
    return text(await this.#on.transport.stream({ method: 'GET', path, signal: AbortSignal.timeout(10_000) }));
  }

  #deployment(): object {
    const { operator, election } = this.#who;
    const labels = { app: this.#name };
    const environment = {
      NUM_WORKERS: String(workers),
      ...operator.environment,
      ...election.environment(this.#lease, this.#standby),
      CONTAINER_NAME: container,
    };
    const fromPod = { HA_NODE_ID: 'metadata.name', POD_NAME: 'metadata.name', POD_UID: 'metadata.uid' };
    return {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: this.#name, namespace },
      spec: {
        replicas,
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            topologySpreadConstraints: [
              {
                maxSkew: 1,
                topologyKey: 'kubernetes.io/hostname',
                whenUnsatisfiable: 'DoNotSchedule',
                labelSelector: { matchLabels: labels },
              },
            ],
            containers: [
              {
                name: container,
                image: this.#on.imageOf(operator),
                imagePullPolicy: 'Never',
                env: [
                  ...Object.entries(environment).map(([name, value]) => ({ name, value })),
                  ...Object.entries(fromPod).map(([name, fieldPath]) => ({
                    name,
                    valueFrom: { fieldRef: { fieldPath } },
                  })),
                ],
              },
            ],
          },
        },
      },
    };
  }
}

const isRunning = ({ metadata, status }: Pod): boolean =>
  metadata.deletionTimestamp === undefined &&
  (status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false);
