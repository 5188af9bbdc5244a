import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { HttpClient } from '../client/http-client.ts';
import type { Client, Connection, RequestObserver } from '../client/index.ts';
import { Transport } from '../client/transport.ts';
import type { ObjectKey } from '../kind/index.ts';
import {
  type HolderContainers,
  LeaderElector,
  LeadershipLostError,
  type LeaseTimings,
} from '../leader-election/index.ts';
import type { Manager, Readiness } from '../manager/index.ts';
import type { LeaderObserver, Logger } from '../observability/index.ts';

/** How several processes of an operator agree on the one that works. */
export interface LeaderElectionOptions {
  /** The Lease that they contend for. They need `get`, `list`, `watch`, `create` and `update` of leases in its namespace. */
  readonly lease: Required<ObjectKey>;
  /** As in `LeaderElectorOptions`: no two processes may have the same. Default: the host's name, which is the pod's, `_`, a uuid. */
  readonly identity?: string;
  /** Default: 15, 10 and 2 seconds. */
  readonly timings?: LeaseTimings;
  /**
   * Whether a standby keeps its caches filled, so that it can work as soon as it leads. It costs the API server a watch,
   * and the standby the memory, of every kind. Default false: a standby watches its Lease alone.
   */
  readonly warmStandby?: boolean;
  /** By which containers a crashed leader is noticed before its Lease expires; given the elector's client. Default: by none. */
  readonly containers?: (client: Client) => HolderContainers;
}

/** What a {@link Candidate} is made of beside its options. */
export interface CandidateEnvironment {
  readonly connection: Connection;
  /** The field manager of the Lease. */
  readonly name: string;
  readonly userAgent: string;
  readonly observe: RequestObserver;
  readonly observer: LeaderObserver;
  readonly log: Logger;
}

/** The work of the one that leads. */
export interface LeaderWork {
  readonly manager: Pick<Manager, 'run' | 'readiness'>;
  /** What is left to do when the manager has stopped, before the Lease is released. */
  finish(): Promise<void>;
}

/** A process of an operator that works only while it leads. */
export class Candidate {
  readonly elector: LeaderElector;
  readonly #lease: Required<ObjectKey>;
  readonly #transport: Transport;
  readonly #isWarm: boolean;
  readonly #log: Logger;
  /** Whoever was last seen to lead; possibly this one. */
  #leader: string | undefined;
  #state: 'new' | 'contending' | 'leading' | 'stopping' = 'new';

  /** @throws RangeError for timings that don't fit together. */
  constructor(options: LeaderElectionOptions, environment: CandidateEnvironment) {
    const { lease, timings, containers, warmStandby = false } = options;
    const { connection, name, userAgent, observe, observer, log } = environment;
    this.#lease = lease;
    this.#isWarm = warmStandby;
    this.#log = log;
    // Its own, so that a renewal waits for no other request; told apart in the API server's log as client-go does.
    this.#transport = new Transport(connection, { userAgent: `${userAgent}/leader-election`, observe });
    const client = new HttpClient(this.#transport, name);
    this.elector = new LeaderElector({
      client,
      lease,
      identity: options.identity ?? `${hostname()}_${randomUUID()}`,
      ...(timings !== undefined && { timings }),
      containers: containers?.(client),
      observer,
      log,
      onNewLeader: (leader) => {
        this.#leader = leader;
      },
    });
  }

  /**
   * For a readiness probe. A standby is ready when it knows of a leader and, if it is a warm one, its caches have synced;
   * a leader, when its caches have.
   */
  readiness({ manager }: Pick<LeaderWork, 'manager'>): Readiness {
    const { namespace, name } = this.#lease;
    if (this.#state === 'stopping') return { ready: false, waitingFor: [] };
    if (this.#leader === undefined) return { ready: false, waitingFor: [], lease: `${namespace}/${name}` };
    return this.#isWarm || this.#state === 'leading' ? manager.readiness() : { ready: true, waitingFor: [] };
  }

  /**
   * Contends, does the work while it leads, and resolves when that is done and the Lease released, or when the signal
   * was aborted before it led.
   *
   * @throws LeadershipLostError as soon as the Lease is lost, whatever is still under way; whatever the work throws.
   */
  async run(signal: AbortSignal, work: LeaderWork): Promise<void> {
    this.#state = 'contending';
    const stopping = () => {
      this.#state = 'stopping';
    };
    signal.addEventListener('abort', stopping, { once: true });
    if (signal.aborted) stopping();
    try {
      await (this.#isWarm ? this.#runWarm(signal, work) : this.#runCold(signal, work));
    } catch (error) {
      if (error instanceof LeadershipLostError) {
        const lease = `${this.#lease.namespace}/${this.#lease.name}`;
        this.#log.error({ err: error, lease }, 'the lease is lost: nothing more is begun');
      }
      throw error;
    } finally {
      stopping();
      signal.removeEventListener('abort', stopping);
      await this.#transport.close();
    }
  }

  async #runCold(signal: AbortSignal, { manager, finish }: LeaderWork): Promise<void> {
    await this.elector.run(signal, async (stop) => {
      this.#leads();
      await manager.run(stop);
      await finish();
    });
  }

  async #runWarm(signal: AbortSignal, { manager, finish }: LeaderWork): Promise<void> {
    const ending = new AbortController();
    const either = AbortSignal.any([signal, ending.signal]);
    const leading = Promise.withResolvers<void>();
    const running = manager.run(either, { leading: leading.promise });
    // A defect while it stands by: it contends no more.
    running.catch(() => ending.abort());
    try {
      await this.elector.run(either, async () => {
        this.#leads();
        leading.resolve();
        await running;
        await finish();
      });
    } finally {
      ending.abort();
    }
    await running;
  }

  #leads(): void {
    if (this.#state === 'contending') this.#state = 'leading';
  }
}
