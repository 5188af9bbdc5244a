import { Lease } from '../built-in-kinds/built-in-kinds.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../client/api-error.ts';
import type { Client } from '../client/client.ts';
import { getIfPresent } from '../client/get-if-present.ts';
import type { ObjectKey } from '../kind/object.ts';
import type { Logger } from '../shared/logger.ts';
import { pause } from '../shared/pause.ts';
import { LeadershipLostError } from './errors.ts';
import type { Fence } from './fence.ts';
import { currentInstant, type Instant } from './instant.ts';
import {
  buildClaimedLease,
  buildNewLease,
  buildReleasedLease,
  holderOf,
  type LeaseClaim,
  type LeaseMetadata,
} from './lease.ts';
import { type LeaseTimings, publishedDurationSeconds } from './timings.ts';

/** The timeout of a release: the kubelet and the next leader wait for this process to exit. */
const releaseTimeoutMs = 3000;

/** What {@link LeaseKeeper} needs. */
export interface LeaseKeeperOptions {
  readonly client: Pick<Client, 'get' | 'create' | 'update'>;
  readonly lease: Required<ObjectKey>;
  readonly identity: string;
  readonly timings: LeaseTimings;
  readonly fence: Fence;
  /** The annotation in which a holder describes its process. Undefined: holders do not describe it. */
  readonly descriptionAnnotation: string | undefined;
  /** Labels and annotations to set on the Lease. Default: none. */
  readonly metadata?: LeaseMetadata | undefined;
  readonly log: Logger;
}

/** Acquires, renews and releases a Lease. Each update carries the resourceVersion of the Lease that it is based on. */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions;
  /** Half of the renew deadline, so that there is time for a second request. */
  readonly #requestTimeoutMs: number;
  #held: Lease | undefined;
  /** The `renewTime` of the last claim, and the monotonic clock at that time. */
  #lastClaim: Instant | undefined;
  #description: string | undefined;
  /** Aborted when a description is published, because the renewal in flight may not contain it. */
  #published = new AbortController();

  constructor(options: LeaseKeeperOptions) {
    this.#options = options;
    this.#requestTimeoutMs = (options.timings.renewDeadlineSeconds / 2) * 1000;
  }

  /** How often the Lease has changed its holder, as of this candidate's last write. */
  get transitions(): number | undefined {
    return this.#held?.spec?.leaseTransitions;
  }

  /**
   * Writes this candidate's claim to the Lease and opens the fence.
   *
   * @param lease the existing Lease; undefined creates one.
   * @param options.last the last observed Lease, if the Lease does not exist any more. Default: the last written one.
   * @param options.signal aborts the request. The request also times out after half of the renew deadline.
   * @throws what the client throws: Conflict or AlreadyExists if another candidate was faster.
   */
  async acquire(
    lease: Lease | undefined,
    { last = this.#held, signal }: { readonly last?: Lease | undefined; readonly signal?: AbortSignal } = {},
  ): Promise<void> {
    const { client, lease: key, fence } = this.#options;
    const options = { signal: this.#withTimeout(signal) };
    const sentAt = currentInstant();
    const claim = this.#claim(sentAt);
    this.#held = await (lease === undefined
      ? client.create(Lease, buildNewLease(key, claim, last), options)
      : client.update(Lease, buildClaimedLease(lease, claim), options));
    fence.extend(sentAt);
  }

  /** Publishes this process's description: {@link keepRenewing} renews the Lease at once. */
  publish(description: string): void {
    this.#description = description;
    this.#published.abort();
  }

  /**
   * Renews the Lease until the signal is aborted or the fence closes. Closes the fence if another candidate holds the
   * Lease.
   */
  async keepRenewing(signal: AbortSignal): Promise<void> {
    const { fence, timings } = this.#options;
    const either = AbortSignal.any([signal, fence.signal]);
    while (!either.aborted) {
      const startedAtMs = performance.now();
      this.#published = new AbortController();
      await this.#renewOnce(either);
      const remainingMs = timings.retryPeriodSeconds * 1000 - (performance.now() - startedAtMs);
      const wake = AbortSignal.any([either, this.#published.signal]);
      await pause(Math.max(0, remainingMs), wake);
    }
  }

  /**
   * Releases the Lease if this candidate holds it, so that another one can take it at once. A failure is logged, and
   * the Lease expires. Takes 3 s at most, because the process is about to exit.
   */
  async release(): Promise<void> {
    const { log } = this.#options;
    const signal = AbortSignal.timeout(Math.min(this.#requestTimeoutMs, releaseTimeoutMs));
    try {
      if (this.#held === undefined) return await this.#releaseIfHeld(signal);
      await this.#writeRelease(this.#held, signal).catch(async (error: unknown) => {
        if (!isConflict(error)) throw error;
        // Either somebody changed the Lease's metadata, or the response to one of our renewals was lost.
        await this.#releaseIfHeld(signal);
      });
      log.info({}, 'the lease is released');
    } catch (error) {
      if (!isNotFound(error)) log.warn({ err: error }, 'the lease could not be released: it expires');
    }
  }

  async #releaseIfHeld(signal: AbortSignal): Promise<void> {
    const { client, lease: key, identity } = this.#options;
    const lease = await client.get(Lease, key, { signal });
    if (holderOf(lease) === identity) await this.#writeRelease(lease, signal);
  }

  async #writeRelease(lease: Lease, signal: AbortSignal): Promise<void> {
    const { client, descriptionAnnotation } = this.#options;
    const annotations = descriptionAnnotation === undefined ? {} : { [descriptionAnnotation]: undefined };
    await client.update(Lease, buildReleasedLease(lease, annotations), { signal });
  }

  async #renewOnce(signal: AbortSignal): Promise<void> {
    const { fence, log } = this.#options;
    try {
      await this.acquire(this.#held, { signal }).catch((error: unknown) => this.#resolveConflict(error, signal));
    } catch (error) {
      if (!signal.aborted) {
        log.warn({ err: error, remainingMs: fence.remainingMs }, 'the lease could not be renewed: trying again');
      }
    }
  }

  /**
   * Reads the Lease after a Conflict, and renews it if this candidate still holds it. Somebody may have labelled or
   * deleted the Lease, or the response to a renewal was lost. If another candidate holds the Lease, closes the fence.
   *
   * @throws `error` if it is not a Conflict; whatever the client throws.
   */
  async #resolveConflict(error: unknown, signal: AbortSignal): Promise<void> {
    // For an update with the uid of a deleted object the server responds with either Conflict or NotFound.
    if (!isConflict(error) && !isNotFound(error) && !isAlreadyExists(error)) throw error;
    const { lease: key, identity, fence, log } = this.#options;
    const lease = await this.#read(signal);
    if (lease === undefined) {
      // Standbys that have observed our claim wait until it expires.
      log.warn({}, 'the lease was deleted: creating it again');
      // If another candidate was faster, it may already lead. Resolve that now instead of at the next renewal.
      return this.acquire(undefined, { signal }).catch((failure: unknown) => {
        // The namespace is gone. The next renewal retries.
        if (isNotFound(failure)) throw failure;
        return this.#resolveConflict(failure, signal);
      });
    }
    const holder = holderOf(lease);
    if (holder === identity) return this.acquire(lease, { signal });
    const problem = holder === undefined ? 'was released by somebody else' : `is held by ${holder}`;
    fence.close(new LeadershipLostError(`the lease ${key.namespace}/${key.name} ${problem}`, 'taken'));
  }

  #read(signal: AbortSignal): Promise<Lease | undefined> {
    const { client, lease } = this.#options;
    return getIfPresent(client, Lease, lease, { signal: this.#withTimeout(signal) });
  }

  #claim(at: Instant): LeaseClaim {
    const { identity, timings, descriptionAnnotation, metadata } = this.#options;
    return {
      labels: metadata?.labels,
      holderIdentity: identity,
      leaseDurationSeconds: publishedDurationSeconds(timings),
      renewTime: this.#renewTime(at),
      annotations: {
        ...metadata?.annotations,
        // Removes the previous holder's description until we publish our own.
        ...(descriptionAnnotation !== undefined && { [descriptionAnnotation]: this.#description }),
      },
    };
  }

  /**
   * The wall clock, advanced at least as far as the monotonic clock since the previous claim. client-go distinguishes
   * renewals by the whole second of renewTime (LeaderElectionRecord in
   * k8s.io/client-go/tools/leaderelection/resourcelock). If a leader's wall clock stood still, or was set back to the
   * same second, client-go would take the Lease from it.
   */
  #renewTime({ monotonicMs, wallMs }: Instant): Date {
    const last = this.#lastClaim;
    const leastMs = last === undefined ? wallMs : last.wallMs + (monotonicMs - last.monotonicMs);
    this.#lastClaim = { monotonicMs, wallMs: Math.max(wallMs, leastMs) };
    return new Date(this.#lastClaim.wallMs);
  }

  #withTimeout(signal: AbortSignal | undefined): AbortSignal {
    const timeout = AbortSignal.timeout(this.#requestTimeoutMs);
    return signal === undefined ? timeout : AbortSignal.any([signal, timeout]);
  }
}
