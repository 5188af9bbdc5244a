import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@echoperator/runtime';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { Job, Pod } from '@echoperator/runtime/kinds';
import { expect } from '@jest/globals';
import { HttpClient } from '../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../packages/runtime/src/client/transport.ts';
import { eventually } from '../../../testkit/eventually.ts';
import { Cluster } from '../../../tools/cluster/index.ts';
import { E2eCluster } from './cluster.ts';
import { EchoStream, type EchoStreamOptions } from './echo-stream.ts';
import { idleJobsLabels, keepJobsIdle } from './idle-jobs.ts';
import {
  effective,
  type Handover,
  handovers,
  jobCreations,
  longestGapMs,
  type PodWrite,
  podWrites,
  turns,
} from './pod-writes.ts';
import { hasEnded } from './process-state.ts';
import { Release } from './release.ts';
import { containerOf, type Holder, Replicas, type ReplicasOptions } from './replicas.ts';

/** Probes readiness every second, so that the kubelet notices a ready pod soon. */
const frequentReadinessProbes = ['--set', 'readinessProbe.periodSeconds=1'];

/** A disturbance of the operator while Echos are created. */
export interface Trial {
  /** Printed with the result. */
  readonly name: string;
  /** Echos per second. Default 20. */
  readonly perSecond?: number;
  /** See EchoStreamOptions. */
  readonly isEnough?: (namespace: string) => Promise<boolean>;
  /** Whether the Jobs have pods. Default: no, because the cluster cannot run so many. */
  readonly runsPods?: boolean;
  /** The number of replicas afterwards. Default: as before. */
  readonly to?: number;
  /** @param leader the leader at the start of the trial */
  readonly disturb: (leader: Holder, stream: EchoStream) => Promise<void>;
}

/** The result of a trial. */
export interface TrialResult {
  /** The namespace of the Echos. */
  readonly namespace: string;
  /** The names of the Echos. */
  readonly echos: readonly string[];
  /** The operator's writes in the namespace. */
  readonly writes: readonly PodWrite[];
  /** The handovers since the disturbance. */
  readonly handovers: readonly Handover[];
}

type Ended = NonNullable<NonNullable<ReturnType<typeof containerOf>['lastState']>['terminated']>;

/** The release of the trials. */
export interface TrialsOptions {
  /** Helm's flags in addition to those of every trial. */
  readonly flags?: readonly string[];
  readonly replicas?: number;
  readonly fullName?: string;
  readonly metrics?: ReplicasOptions['metrics'];
}

/**
 * Disturbs a release with several replicas while Echos are created. A trial leaves the release and the cluster
 * unchanged.
 */
export class Trials {
  readonly cluster: Cluster;
  readonly user: E2eCluster;
  readonly client: Client;
  readonly replicas: Replicas;
  readonly release: Release;
  readonly #transport: Transport;
  readonly #flags: readonly string[];
  readonly #count: number;

  private constructor(
    cluster: Cluster,
    user: E2eCluster,
    transport: Transport,
    release: Release,
    { flags = [], replicas = 3, fullName = 'echoperator', metrics = { port: 2112, path: '/metrics' } }: TrialsOptions,
  ) {
    this.cluster = cluster;
    this.user = user;
    this.release = release;
    this.client = new HttpClient(transport, 'test');
    this.replicas = new Replicas({ client: this.client, transport, namespace: release.namespace, fullName, metrics });
    this.#transport = transport;
    this.#flags = [...frequentReadinessProbes, ...flags];
    this.#count = replicas;
  }

  /** Installs the release. */
  static async begin(options: TrialsOptions = {}): Promise<Trials> {
    const user = await E2eCluster.connect();
    const cluster = await Cluster.find('e2e');
    const connection = await kubeconfigConnection(user.kubeconfig);
    const transport = new Transport(connection, { userAgent: 'test', timeoutMs: 10_000 });
    const release = Release.in(user, await user.namespace());
    const trials = new Trials(cluster, user, transport, release, options);
    await Promise.all([trials.upgrade(), keepJobsIdle(user)]);
    return trials;
  }

  /** Uninstalls the release. The Echos are removed with the cluster. */
  async end(): Promise<void> {
    await this.#transport.close();
    await this.release.uninstall();
  }

  /**
   * Disturbs the operator while Echos are created. Verifies that in the end each Echo has had exactly one Job, and one
   * replica leads. Prints the longest time without a new Job.
   */
  async run({ name, perSecond = 20, isEnough, runsPods = false, to, disturb }: Trial): Promise<TrialResult> {
    const { client, user, replicas } = this;
    await replicas.settled(this.#count);
    const namespace = await user.namespace(runsPods ? {} : idleJobsLabels);
    const options: EchoStreamOptions = {
      client,
      namespace,
      perSecond,
      ...(isEnough && { isEnough: () => isEnough(namespace) }),
    };
    await using stream = EchoStream.start(options);
    await eventually('Jobs are created', async () => (await this.#jobNames(namespace)).size >= 3, 60_000);
    const leader = await replicas.holder();
    const sinceMs = Date.now();
    await disturb(leader, stream);
    await replicas.settled(to ?? this.#count);
    const echos = await stream.stop();
    const haveJobs = async () => isSuperset(await this.#jobNames(namespace), echos);
    await eventually('every Echo has its Job', haveJobs, 120_000);
    const { transitions } = await replicas.holder();

    const writes = await podWrites(user.auditLog, namespace);
    const creations = jobCreations(writes);
    const its = handovers(await podWrites(user.auditLog, replicas.namespace), creations, sinceMs);
    const gaps = its.map(({ leaseMs, workMs }) => `Lease ${leaseMs.toFixed(0)} ms, Job ${workMs.toFixed(0)} ms`);
    const gap = longestGapMs(creations, sinceMs).toFixed(0);
    process.stdout.write(`${name}: no Job for ${gap} ms; handovers: ${gaps.join('; ')}\n`);
    const made = creations.map((creation) => creation.name);
    expect(made.filter((job, i) => made.indexOf(job) < i)).toEqual([]);
    // A deleted Job could have been created twice unnoticed.
    expect(writes.filter(({ verb, resource }) => verb.startsWith('delete') && resource === 'jobs')).toEqual([]);
    // A former leader must not write after the next one did, unless it was elected again.
    expect(turns(effective(writes)).length - 1).toBeLessThanOrEqual(transitions - leader.transitions);
    return { namespace, echos, writes, handovers: its };
  }

  async #jobNames(namespace: string): Promise<ReadonlySet<string>> {
    await delay(200);
    const { items } = await this.client.listMetadata(Job, { namespace });
    return new Set(items.map(({ metadata }) => metadata.name));
  }

  /** Upgrades the release with the flags of the installation and more. */
  async upgrade(...flags: readonly string[]): Promise<void> {
    await this.release.upgrade([...this.#flags, ...flags]);
  }

  async deletePod(name: string): Promise<void> {
    await this.client.delete(Pod, { namespace: this.replicas.namespace, name });
  }

  async nodeOf(pod: string): Promise<string> {
    return (await this.replicas.pod(pod)).spec?.nodeName ?? '';
  }

  /** Returns the host's process ids of a pod's container. */
  async processesOf(pod: string): Promise<readonly number[]> {
    const pids = await this.cluster.containerProcesses(containerOf(await this.replicas.pod(pod)).containerID ?? '');
    expect(pids).not.toEqual([]);
    return pids;
  }

  /** Returns the restart count of each pod's container by the pod's name. */
  async restarts(): Promise<Readonly<Record<string, number>>> {
    const pods = await this.replicas.pods();
    return Object.fromEntries(pods.map((pod) => [pod.metadata.name, containerOf(pod).restartCount]));
  }

  /** Waits until a pod's container was restarted more than `before` times. @returns its last termination */
  startedAgain(pod: string, before = 0): Promise<Ended> {
    return eventually(
      `the container of ${pod} is started again`,
      async () => {
        const { restartCount, lastState } = containerOf(await this.replicas.pod(pod));
        return restartCount > before && lastState?.terminated;
      },
      90_000,
    );
  }

  async nodeIs(node: string, ready: 'True' | 'Unknown'): Promise<void> {
    await this.cluster.kubectl(['wait', `--for=condition=Ready=${ready}`, `node/${node}`, '--timeout=90s']);
  }
}

/** Waits until all of these processes have ended. */
export const ended = (pids: readonly number[]): Promise<boolean> =>
  eventually('the processes have ended', async () => (await Promise.all(pids.map(hasEnded))).every(Boolean), 90_000);

const isSuperset = (names: ReadonlySet<string>, wanted: readonly string[]) => wanted.every((name) => names.has(name));
