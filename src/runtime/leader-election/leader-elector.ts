import { setTimeout as delay } from 'node:timers/promises';
import { type Client, type Gate, isAlreadyExists, isConflict, isNotFound } from '../client/index.ts';
import type { ObjectKey } from '../kind/index.ts';
import type { LeaderObserver, Logger } from '../observability/index.ts';
import { NotLeadingError } from './errors.ts';
import { Fence } from './fence.ts';
import type { HolderContainers } from './holder-container.ts';
import { LeaseKeeper } from './lease-keeper.ts';
import { Standby } from './standby.ts';
import { checkedTimings, defaultTimings, jittered, type LeaseTimings } from './timings.ts';

/** What a candidate is made of. */
export interface LeaderElectorOptions {
  /**
   * How the Lease is read and written: over a transport of its own, so that a renewal waits for no other request, and
   * without a gate.
   */
  readonly client: Pick<Client, 'get' | 'list' | 'watchBatches' | 'create' | 'update'>;
  readonly lease: Required<ObjectKey>;
  /** Who this candidate is. No other process may ever have the same: a name for people, `_`, and a uuid. */
  readonly identity: string;
  /** Default: 15, 10 and 2 seconds. */
  readonly timings?: LeaseTimings;
  readonly log: Logger;
  readonly observer?: LeaderObserver;
  /** By which containers the end of a crashed leader is noticed before its Lease expires. Default: not at all. */
  readonly containers?: HolderContainers | undefined;
  /** Told who leads, each time that it is another: also of this candidate itself. One that throws is logged. */
  readonly onNewLeader?: (identity: string) => void;
}

/**
 * A candidate for leadership. Of all that contend for a Lease one leads at a time, in the sense of its {@link fence}: a
 * request that passes it begins while nobody else's can.
 *
 * - It speaks client-go's protocol (k8s.io/client-go/tools/leaderelection): candidates in Go may contend for the same Lease.
 * - Whether another's Lease has expired is told by this process's own clock, from when it saw the last renewal. No clock is
 *   compared with another machine's.
 * - Every write carries the resourceVersion of what it is based on.
 * - A standby watches, and so takes a released Lease within milliseconds, and that of a crashed holder as soon as its end is
 *   proven.
 *
 * What it assumes: clocks that run equally fast, but for the difference of leaseDuration and renewDeadline; that nobody
 * but candidates writes the holder of the Lease, or deletes it: one that has not seen it before makes it anew at once. What
 * was sent before the fence closed may still be carried out by the server later, so writes must be idempotent or carry a
 * precondition.
 *
 * @example
 * const elector = new LeaderElector({ client, lease: { namespace: 'default', name: 'greeter' }, identity, log });
 * const fenced = new HttpClient(transport, 'greeter', { gate: elector.fence });
 * await elector.run(signal, (stop) => manager.run(stop));
 */
export class LeaderElector {
  /** Open while this candidate leads. Once closed it stays so: a candidate leads once. */
  readonly fence: Gate;
  readonly #fence: Fence;
  readonly #options: LeaderElectorOptions;
  readonly #timings: LeaseTimings;
  readonly #log: Logger;
  readonly #keeper: LeaseKeeper;
  readonly #standby: Standby;
  /** Our name may stand on the Lease, though we do not lead. */
  #mayHold = false;
  #state: 'new' | 'contending' | 'leading' | 'ended' = 'new';

  /** @throws RangeError for timings that don't fit together. */
  constructor(options: LeaderElectorOptions) {
    const { client, lease, identity, timings = defaultTimings, containers } = options;
    this.#options = options;
    this.#timings = checkedTimings(timings);
    this.#log = options.log.child({ lease: `${lease.namespace}/${lease.name}`, identity });
    this.#fence = new Fence(timings.renewDeadlineSeconds * 1000);
    this.fence = this.#fence;
    const shared = { client, lease, identity, timings, log: this.#log };
    this.#keeper = new LeaseKeeper({ ...shared, fence: this.#fence });
    this.#standby = new Standby({
      ...shared,
      containers,
      onNewLeader: (leader) => {
        this.#log.info({ leader }, 'another leads');
        this.#tell(leader);
      },
    });
  }

  get isLeading(): boolean {
    return this.#state === 'leading' && !this.fence.signal.aborted;
  }

  /**
   * Contends until the Lease is this candidate's, then calls `lead`; renews while that runs, also while it comes to its end
   * after the signal was aborted. Then closes the fence, releases the Lease and resolves. Aborted before it leads, it just
   * resolves. While the API server can't be reached it waits.
   *
   * @param lead what only a leader does, until its signal is aborted.
   * @throws LeadershipLostError as soon as the Lease is lost, without waiting for `lead`: its signal is aborted, the fence
   *   is closed. Whatever `lead` throws, after the Lease was released.
   */
  async run(signal: AbortSignal, lead: (stop: AbortSignal) => Promise<void>): Promise<void> {
    if (this.#state !== 'new') throw new Error('a leader elector runs once');
    this.#state = 'contending';
    try {
      if (await this.#contend(signal)) await this.#lead(signal, lead);
    } finally {
      this.#state = 'ended';
      await this.#standby.end();
    }
  }

  /** Whether it ended with the Lease, not with the signal. */
  async #contend(signal: AbortSignal): Promise<boolean> {
    this.#log.info(this.#timings, 'contending for the lease');
    while (!signal.aborted) {
      await this.#standby.untilFree(signal).catch(() => {});
      if (signal.aborted) break;
      try {
        // Not to be aborted, only limited in time: were it carried out all the same, nobody would release the Lease.
        await this.#keeper.take(this.#standby.observed.lease);
        if (!signal.aborted) return true;
        this.#mayHold = true;
      } catch (error) {
        await this.#notTaken(error, signal);
      }
    }
    if (this.#mayHold) await this.#giveBack();
    return false;
  }

  async #notTaken(error: unknown, signal: AbortSignal): Promise<void> {
    // It has been changed, made or deleted since it was seen. Where there was none that could be gone, it is the namespace
    // that is not there.
    const isGone = isNotFound(error) && this.#standby.observed.lease !== undefined;
    if (isConflict(error) || isAlreadyExists(error) || isGone) {
      this.#log.debug({ err: error }, 'another was faster');
      this.#standby.observed.outdated();
      return;
    }
    this.#log.warn({ err: error }, 'the lease could not be taken: trying again');
    // Of one without an answer nobody knows yet whether it was carried out.
    this.#mayHold = true;
    const pauseMs = jittered(this.#timings.retryPeriodSeconds * 1000);
    await delay(pauseMs, undefined, { signal }).catch(() => {});
  }

  async #lead(signal: AbortSignal, lead: (stop: AbortSignal) => Promise<void>): Promise<void> {
    this.#standby.stop();
    const stop = new AbortController();
    const stopping = () => stop.abort(signal.reason);
    const lost = Promise.withResolvers<never>();
    // Whoever waits for it does so below.
    lost.promise.catch(() => {});
    const losing = () => lost.reject(this.fence.signal.reason);
    signal.addEventListener('abort', stopping, { once: true });
    this.fence.signal.addEventListener('abort', losing, { once: true });
    if (signal.aborted) stopping();
    if (this.fence.signal.aborted) losing();
    const renewing = new AbortController();
    const renewal = this.#keeper.renew(renewing.signal);
    try {
      this.#begin(renewing.signal);
      await Promise.race([lead(stop.signal), lost.promise]);
    } finally {
      signal.removeEventListener('abort', stopping);
      this.fence.signal.removeEventListener('abort', losing);
      const isLost = this.fence.signal.aborted;
      stop.abort(this.fence.signal.reason);
      this.#fence.close(new NotLeadingError('this process has given its lease back'));
      renewing.abort();
      this.#options.observer?.changed(false);
      if (!isLost) {
        await renewal;
        await this.#keeper.release();
      }
    }
  }

  /** Stopped while the Lease was being taken, or without an answer to that. */
  async #giveBack(): Promise<void> {
    this.#fence.close(new NotLeadingError('this process was stopped before it led'));
    await this.#keeper.release();
  }

  #tell(leader: string): void {
    try {
      this.#options.onNewLeader?.(leader);
    } catch (error) {
      this.#log.error({ err: error, leader }, 'onNewLeader threw');
    }
  }

  #begin(signal: AbortSignal): void {
    const { identity, observer, containers } = this.#options;
    this.#state = 'leading';
    this.#log.info({}, 'leading');
    observer?.changed(true);
    this.#tell(identity);
    const publish = async (): Promise<void> => {
      const container = await containers?.own(signal);
      if (container !== undefined) this.#keeper.publish(container);
    };
    publish().catch((error: unknown) => {
      if (!signal.aborted)
        this.#log.warn({ err: error }, 'a crash of this leader will be noticed only when its lease expires');
    });
  }
}
