import { isAlreadyExists, isConflict, isNotFound } from '../client/api-error.ts';
import type { Client } from '../client/client.ts';
import type { Gate } from '../client/gate.ts';
import type { ObjectKey } from '../kind/object.ts';
import type { Logger } from '../shared/logger.ts';
import { pause } from '../shared/pause.ts';
import type { CrashDetector } from './crash-detection/crash-detector.ts';
import { LeadershipLostError, NotLeadingError } from './errors.ts';
import { Fence } from './fence.ts';
import type { FenceClosingReason, LeaderObserver, TakeoverReason } from './leader-observer.ts';
import type { LeaseMetadata } from './lease.ts';
import { LeaseKeeper } from './lease-keeper.ts';
import { Standby } from './standby.ts';
import { addJitter, defaultTimings, type LeaseTimings, validateTimings } from './timings.ts';

/** Options of a {@link LeaderElector}. */
export interface LeaderElectorOptions {
  /**
   * Reads and writes the Lease. It needs its own transport, so that a renewal does not wait for other requests, and
   * must not have a gate.
   */
  readonly client: Pick<Client, 'get' | 'list' | 'watchBatches' | 'create' | 'update'>;
  readonly lease: Required<ObjectKey>;
  /**
   * Identifies this candidate. It must be unique across processes and restarts: for example the pod's name, `_` and a
   * uuid.
   */
  readonly identity: string;
  /** Default: 15, 10 and 2 seconds. */
  readonly timings?: LeaseTimings;
  readonly log: Logger;
  readonly observer?: LeaderObserver;
  /**
   * Detects that a leader has crashed before its Lease expires. Default: none, so that standbys wait until it expires.
   */
  readonly crashDetector?: CrashDetector | undefined;
  /** Labels and annotations that the holder sets on the Lease. Default: none. */
  readonly metadata?: LeaseMetadata | undefined;
  /** Called with the identity of each new leader, including this candidate. If it throws, the error is logged. */
  readonly onNewLeader?: (identity: string) => void;
}

/**
 * A candidate for leadership. At most one candidate for a Lease leads at a time: while one candidate's {@link fence}
 * lets requests begin, no other candidate's fence does.
 *
 * - It speaks client-go's protocol (k8s.io/client-go/tools/leaderelection), so candidates in Go may contend for the
 *   same Lease.
 * - Expiry is measured by this process's own clock, from when it observed the last renewal. Clocks of different
 *   machines are never compared.
 * - Each write carries the resourceVersion that it is based on.
 * - A standby watches the Lease. It takes a released Lease within milliseconds, and a crashed leader's Lease as soon as
 *   the crash is proven.
 *
 * *Assumptions.* All clocks run at the same speed, within the ratio of leaseDuration to renewDeadline. Only candidates
 * write the Lease's holder. Nobody deletes the Lease: a candidate that has never observed it would create it at once.
 * Requests sent before the fence closed may still be executed later, so writes must be idempotent or carry a
 * precondition.
 *
 * @example
 * const elector = new LeaderElector({ client, lease: { namespace: 'default', name: 'greeter' }, identity, log });
 * const fenced = createClient(connection, { fieldManager: 'greeter', gate: elector.fence });
 * await elector.run(signal, (stop) => manager.run(stop));
 */
export class LeaderElector {
  /** Open while this candidate leads. It never reopens, because a candidate leads at most once. */
  readonly fence: Gate;
  readonly #fence: Fence;
  readonly #options: LeaderElectorOptions;
  readonly #timings: LeaseTimings;
  readonly #log: Logger;
  readonly #keeper: LeaseKeeper;
  readonly #standby: Standby;
  /** Whether the Lease may name us as its holder although we do not lead. */
  #mayHoldLease = false;
  #state: 'new' | 'contending' | 'leading' | 'ended' = 'new';
  #takeover: string | undefined;
  #takeoverReason: TakeoverReason = 'absence';

  /** @throws RangeError for timings that contradict each other. */
  constructor(options: LeaderElectorOptions) {
    const { client, lease, identity, timings = defaultTimings, crashDetector } = options;
    this.#options = options;
    this.#timings = validateTimings(timings);
    this.#log = options.log.child({ lease: `${lease.namespace}/${lease.name}`, identity });
    this.#fence = new Fence(timings.renewDeadlineSeconds * 1000);
    this.fence = this.#fence;
    const shared = { client, lease, identity, timings, log: this.#log };
    this.#keeper = new LeaseKeeper({
      ...shared,
      fence: this.#fence,
      descriptionAnnotation: crashDetector?.annotation,
      metadata: options.metadata,
    });
    this.#standby = new Standby({
      ...shared,
      crashDetector,
      onNewLeader: (leader) => {
        this.#log.info({ leader }, 'another candidate leads');
        this.#notifyNewLeader(leader);
      },
    });
  }

  /** Why the Lease was free when this candidate took it. Undefined until then. */
  get takeover(): string | undefined {
    return this.#takeover;
  }

  /** How often the Lease has changed its holder, as far as this candidate has observed. */
  get leaseTransitions(): number | undefined {
    return this.#keeper.transitions ?? this.#standby.observed.lease?.spec?.leaseTransitions;
  }

  get isLeading(): boolean {
    return this.#state === 'leading' && !this.fence.signal.aborted;
  }

  /**
   * Whether this candidate leads, or has observed a renewal or a change of the holder during the last two lease
   * durations. Otherwise no candidate leads, or this candidate cannot read the Lease.
   */
  get isLeaseAlive(): boolean {
    return this.isLeading || this.#standby.observed.isAlive;
  }

  /**
   * Contends until this candidate holds the Lease, then calls `lead`. It renews the Lease until `lead` has returned,
   * even while `lead` drains after the signal was aborted. Then it closes the fence, releases the Lease and resolves.
   * If the signal is aborted before this candidate leads, it resolves without calling `lead`. It waits while the API
   * server is unreachable.
   *
   * @param lead does the leader's work until its signal is aborted.
   * @throws LeadershipLostError as soon as the Lease is lost, without waiting for `lead`: the fence is closed and the
   *   signal of `lead` is aborted. Whatever `lead` throws, after the Lease was released.
   */
  async run(signal: AbortSignal, lead: (stop: AbortSignal) => Promise<void>): Promise<void> {
    if (this.#state !== 'new') throw new Error('a LeaderElector runs only once: construct a new one');
    this.#state = 'contending';
    try {
      if (await this.#contend(signal)) await this.#lead(signal, lead);
    } finally {
      this.#state = 'ended';
      await this.#standby.end();
    }
  }

  /** Returns true once this candidate holds the Lease; false if the signal was aborted first. */
  async #contend(signal: AbortSignal): Promise<boolean> {
    this.#log.info(this.#timings, 'contending for the lease');
    while (!signal.aborted) {
      await this.#standby.waitUntilFree(signal).catch(() => {});
      if (signal.aborted) break;
      this.#takeover = this.#standby.whyFree();
      this.#takeoverReason = this.#standby.observed.freedBy;
      try {
        // Do not abort this request with the signal: the server might still execute it, and nobody would release the
        // Lease.
        const { lease, last } = this.#standby.observed;
        await this.#keeper.acquire(lease, { last });
        if (!signal.aborted) return true;
        this.#mayHoldLease = true;
      } catch (error) {
        await this.#handleAcquireError(error, signal);
      }
    }
    if (this.#mayHoldLease) await this.#releaseWithoutLeading();
    return false;
  }

  async #handleAcquireError(error: unknown, signal: AbortSignal): Promise<void> {
    // NotFound means that the Lease was deleted since it was observed. If none was observed, the namespace does not
    // exist.
    const isDeleted = isNotFound(error) && this.#standby.observed.lease !== undefined;
    if (isConflict(error) || isAlreadyExists(error) || isDeleted) {
      this.#log.debug({ err: error }, 'another candidate changed the lease first');
      this.#standby.observed.markStale();
      return;
    }
    this.#log.warn({ err: error }, 'the lease could not be taken: trying again');
    // Without a response it is unknown whether the server executed the request.
    this.#mayHoldLease = true;
    const pauseMs = addJitter(this.#timings.retryPeriodSeconds * 1000);
    await pause(pauseMs, signal);
  }

  async #lead(signal: AbortSignal, lead: (stop: AbortSignal) => Promise<void>): Promise<void> {
    this.#standby.stop();
    const stop = new AbortController();
    const onStop = () => stop.abort(signal.reason);
    const lost = Promise.withResolvers<never>();
    // Avoids an unhandled rejection if `lead` has already returned.
    lost.promise.catch(() => {});
    const onLost = () => lost.reject(this.fence.signal.reason);
    signal.addEventListener('abort', onStop, { once: true });
    this.fence.signal.addEventListener('abort', onLost, { once: true });
    if (signal.aborted) onStop();
    if (this.fence.signal.aborted) onLost();
    const renewing = new AbortController();
    const renewal = this.#keeper.keepRenewing(renewing.signal);
    try {
      this.#startLeading(renewing.signal);
      await Promise.race([lead(stop.signal), lost.promise]);
    } finally {
      signal.removeEventListener('abort', onStop);
      this.fence.signal.removeEventListener('abort', onLost);
      const isLost = this.fence.signal.aborted;
      stop.abort(this.fence.signal.reason);
      this.#fence.close(new NotLeadingError('this process no longer leads: it releases its lease'));
      renewing.abort();
      this.#options.observer?.changed(false);
      this.#options.observer?.fenceClosed?.(closingReasonOf(this.fence.signal.reason));
      if (!isLost) {
        await renewal;
        await this.#keeper.release();
      }
    }
  }

  /** For a candidate that was stopped while it acquired the Lease, or whose claim got no response. */
  async #releaseWithoutLeading(): Promise<void> {
    this.#fence.close(new NotLeadingError('this process was stopped before it led'));
    await this.#keeper.release();
  }

  #notifyNewLeader(leader: string): void {
    try {
      this.#options.onNewLeader?.(leader);
    } catch (error) {
      this.#log.error({ err: error, leader }, 'onNewLeader threw');
    }
  }

  #startLeading(signal: AbortSignal): void {
    const { identity, observer } = this.#options;
    this.#state = 'leading';
    this.#log.info({ because: this.#takeover }, 'leading');
    observer?.changed(true);
    observer?.tookOver?.(this.#takeoverReason);
    this.#notifyNewLeader(identity);
    this.#publishDescription(signal).catch((error: unknown) => {
      if (!signal.aborted)
        this.#log.warn({ err: error }, 'a crash of this leader will be noticed only when its lease expires');
    });
  }

  async #publishDescription(signal: AbortSignal): Promise<void> {
    const { identity, crashDetector } = this.#options;
    const description = await crashDetector?.describeProcess(identity, signal);
    if (description !== undefined) this.#keeper.publish(description);
  }
}

const closingReasonOf = (reason: unknown): FenceClosingReason =>
  reason instanceof LeadershipLostError ? reason.reason : 'stopped';
