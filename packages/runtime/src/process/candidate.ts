import { hostname } from 'node:os';
import type { Client } from '../client/client.ts';
import type { Connection } from '../client/connection.ts';
import type { RequestObserver } from '../client/exchange.ts';
import { HttpClient } from '../client/http-client.ts';
import { Transport } from '../client/transport.ts';
import type { ObjectKey } from '../kind/object.ts';
import type { CrashDetector } from '../leader-election/crash-detection/crash-detector.ts';
import { LeadershipLostError } from '../leader-election/errors.ts';
import { LeaderElector } from '../leader-election/leader-elector.ts';
import type { LeaderObserver } from '../leader-election/leader-observer.ts';
import { type OperatorScope, ScopeCheck } from '../leader-election/scope-check.ts';
import type { LeaseTimings } from '../leader-election/timings.ts';
import type { Manager, Readiness } from '../manager/manager.ts';
import type { Logger } from '../shared/logger.ts';

/** Options of leader election among the processes of an operator. */
export interface LeaderElectionOptions {
  /** The Lease. The processes need `get`, `list`, `watch`, `create` and `update` of leases in its namespace. */
  readonly lease: Required<ObjectKey>;
  /**
   * Must be unique among the processes, as in `LeaderElectorOptions`. Default: host name (the pod's name), `_` and a
   * uuid.
   */
  readonly identity?: string;
  /** Default: 15, 10 and 2 seconds. */
  readonly timings?: LeaseTimings;
  /**
   * Whether a standby fills its caches, so that it can work as soon as it leads. Each kind costs the API server a watch
   * and the standby memory. Default false: a standby watches only its Lease.
   */
  readonly warmStandby?: boolean;
  /**
   * Creates the detector of crashed leaders, from the elector's client. Default: no detector, so that the Lease of a
   * crashed leader must expire.
   */
  readonly crashDetector?: (client: Client) => CrashDetector;
  /**
   * Keeps two operators of the same name from working in the same namespaces: this one contends only while no other
   * works there. Default: no check.
   */
  readonly scope?: OperatorScope;
}

/** The leader, as far as this process has observed. */
export interface Leadership {
  /** The identity on the Lease. */
  readonly identity: string;
  readonly isThisProcess: boolean;
  /** When this process observed the leader, or began to lead. */
  readonly since: Date;
  /** Why this process could begin to lead. Undefined if another process leads. */
  readonly because: string | undefined;
}

/** The dependencies of a {@link Candidate}. */
export interface CandidateEnvironment {
  readonly connection: Connection;
  /** The field manager of the Lease. */
  readonly name: string;
  readonly userAgent: string;
  readonly observe: RequestObserver;
  readonly observer: LeaderObserver;
  readonly log: Logger;
}

/** The work of the leader. */
export interface LeaderWork {
  readonly manager: Pick<Manager, 'run' | 'readiness'>;
  /** Called after the manager has stopped and before the Lease is released. */
  finish(): Promise<void>;
}

/** An operator process that works only while it is the leader. */
export class Candidate {
  readonly elector: LeaderElector;
  readonly #lease: Required<ObjectKey>;
  readonly #transport: Transport;
  readonly #isWarm: boolean;
  readonly #scope: ScopeCheck | undefined;
  /** Where {@link #scope} looks. */
  readonly #lookedIn: string;
  readonly #log: Logger;
  /** The last observed leader, which may be this process. */
  #leader: { readonly identity: string; readonly since: Date } | undefined;
  /** `looking`: checking whether another operator works in the same namespaces. */
  #state: 'new' | 'looking' | 'contending' | 'leading' | 'stopping' = 'new';

  /** @throws RangeError for inconsistent timings. */
  constructor(options: LeaderElectionOptions, environment: CandidateEnvironment) {
    const { lease, timings, crashDetector, warmStandby = false } = options;
    const { connection, name, userAgent, observe, observer, log } = environment;
    this.#lease = lease;
    this.#isWarm = warmStandby;
    this.#log = log;
    // A separate transport, so that a renewal never waits for other requests. The user agent is the same as in
    // client-go.
    this.#transport = new Transport(connection, { userAgent: `${userAgent}/leader-election`, observe });
    const client = new HttpClient(this.#transport, name);
    this.#lookedIn = options.scope?.lookIn === 'allNamespaces' ? 'all namespaces' : lease.namespace;
    this.#scope = options.scope && new ScopeCheck({ ...options.scope, client, lease, name, log });
    this.elector = new LeaderElector({
      client,
      lease,
      identity: options.identity ?? `${hostname()}_${crypto.randomUUID()}`,
      ...(timings !== undefined && { timings }),
      crashDetector: crashDetector?.(client),
      observer,
      log,
      metadata: this.#scope?.metadata,
      onNewLeader: (leader) => {
        this.#leader = { identity: leader, since: new Date() };
      },
    });
  }

  /** The last observed leader. Undefined until one is observed. */
  get leadership(): Leadership | undefined {
    const { isLeading, takeover } = this.elector;
    return this.#leader && { ...this.#leader, isThisProcess: isLeading, because: isLeading ? takeover : undefined };
  }

  /**
   * Returns the result for a readiness probe. A standby is ready while it observes that the Lease is renewed
   * ({@link LeaderElector.isLeaseAlive}). The caches of a warm standby must be ready too.
   *
   * A leader is ready while its caches are. It must also have checked whether another operator works in the same
   * namespaces, or have given up: after ten seconds, or at once if it may not list Leases.
   */
  readiness({ manager }: Pick<LeaderWork, 'manager'>): Readiness {
    const { namespace, name } = this.#lease;
    if (this.#state === 'stopping') return { ready: false, waitingFor: [] };
    const conflict = this.#scope?.conflict;
    if (conflict !== undefined) return { ready: false, waitingFor: [], conflict };
    if (this.#state === 'looking') return { ready: false, waitingFor: [], unlistedLeases: this.#lookedIn };
    if (this.#leader === undefined || !this.elector.isLeaseAlive)
      return { ready: false, waitingFor: [], lease: `${namespace}/${name}` };
    return this.#isWarm || this.#state === 'leading' ? manager.readiness() : { ready: true, waitingFor: [] };
  }

  /**
   * Waits until no other operator works in the same namespaces, contends for the Lease, and works while it leads.
   * Resolves when the work has ended and the Lease is released, or when the signal aborts before it leads.
   *
   * @throws LeadershipLostError as soon as the Lease is lost, ScopeTakenError as soon as another operator works in the
   *   same namespaces. Reconciles may then still run. The errors of the work.
   */
  async run(signal: AbortSignal, work: LeaderWork): Promise<void> {
    this.#state = this.#scope === undefined ? 'contending' : 'looking';
    const setStopping = () => {
      this.#state = 'stopping';
    };
    signal.addEventListener('abort', setStopping, { once: true });
    if (signal.aborted) setStopping();
    try {
      await this.#scope?.waitUntilFree(signal);
      if (signal.aborted) return;
      this.#state = 'contending';
      await (this.#isWarm ? this.#runWarm(signal, work) : this.#runCold(signal, work));
    } catch (error) {
      if (error instanceof LeadershipLostError) {
        const lease = `${this.#lease.namespace}/${this.#lease.name}`;
        this.#log.error({ err: error, lease }, 'the lease is lost: starting no new work');
      }
      throw error;
    } finally {
      setStopping();
      signal.removeEventListener('abort', setStopping);
      await this.#transport.close();
    }
  }

  async #runCold(signal: AbortSignal, { manager, finish }: LeaderWork): Promise<void> {
    await this.elector.run(signal, (stop) =>
      this.#whileScopeIsFree(stop, async () => {
        this.#setLeading();
        await manager.run(stop);
        await finish();
      }),
    );
  }

  async #runWarm(signal: AbortSignal, { manager, finish }: LeaderWork): Promise<void> {
    const stop = new AbortController();
    const stopSignal = AbortSignal.any([signal, stop.signal]);
    const leading = Promise.withResolvers<void>();
    const running = manager.run(stopSignal, { leading: leading.promise });
    // If the manager of a standby fails, stop contending.
    running.catch(() => stop.abort());
    try {
      await this.elector.run(stopSignal, (leaderStop) =>
        this.#whileScopeIsFree(leaderStop, async () => {
          this.#setLeading();
          leading.resolve();
          await running;
          await finish();
        }),
      );
    } finally {
      stop.abort();
    }
    await running;
  }

  /**
   * Works unless another operator works in the scope. This process holds the Lease by now, so an operator that starts
   * later finds it.
   */
  async #whileScopeIsFree(stop: AbortSignal, work: () => Promise<void>): Promise<void> {
    const scope = this.#scope;
    if (scope === undefined) return work();
    if (this.#state === 'contending') this.#state = 'looking';
    await scope.requireFree(stop);
    if (stop.aborted) return;
    const ended = new AbortController();
    const taken = Promise.withResolvers<never>();
    const watching = scope.watch(AbortSignal.any([stop, ended.signal])).catch(taken.reject);
    try {
      await Promise.race([work(), taken.promise]);
    } finally {
      ended.abort();
      await watching;
    }
  }

  #setLeading(): void {
    if (this.#state !== 'stopping') this.#state = 'leading';
  }
}
