import type { Lease } from '../built-in-kinds/built-in-kinds.ts';
import type { TakeoverReason } from './leader-observer.ts';
import { holderOf, isSameClaim } from './lease.ts';
import { defaultTimings } from './timings.ts';

/** Options of {@link ObservedLease}. */
export interface ObservedLeaseOptions {
  /** The standby's own identity. */
  readonly identity: string;
  /** The duration of a Lease that does not state one, in seconds. Default 15. */
  readonly leaseDurationSeconds?: number;
  /** The annotation in which the holder describes its process. Default: none. */
  readonly descriptionAnnotation?: string | undefined;
}

/** A holder and its description of its process. */
interface DescribedHolder {
  readonly holder: string;
  readonly description: string;
}

/**
 * The Lease as this standby last observed it, and when, by the standby's own clock. The times on the Lease come from
 * the clocks of other machines. So the standby uses only the fact that they changed.
 */
export class ObservedLease {
  readonly #options: ObservedLeaseOptions;
  #lease: Lease | undefined;
  #exists = false;
  /** When the current claim was first observed (performance.now). */
  #claimedAtMs = Number.NEGATIVE_INFINITY;
  /**
   * The holder whose end was proven last. It counts as ended even if an older version of the Lease is observed later.
   */
  #ended: DescribedHolder | undefined;
  /** Whether a write to the Lease had a Conflict, so that a newer version exists. */
  #isStale = false;
  #observedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ObservedLeaseOptions) {
    this.#options = options;
  }

  /** The Lease to base a write on; undefined if it does not exist. */
  get lease(): Lease | undefined {
    return this.#exists ? this.#lease : undefined;
  }

  /** The last observed Lease, even if the Lease does not exist any more. */
  get last(): Lease | undefined {
    return this.#lease;
  }

  get holder(): string | undefined {
    return this.#lease === undefined ? undefined : holderOf(this.#lease);
  }

  /** The holder's description of its process. */
  get description(): string | undefined {
    const { descriptionAnnotation } = this.#options;
    return descriptionAnnotation === undefined ? undefined : this.#lease?.metadata.annotations?.[descriptionAnnotation];
  }

  /** Milliseconds since the last observation; infinite before the first one. */
  get msSinceObserved(): number {
    return performance.now() - this.#observedAtMs;
  }

  observe(lease: Lease): void {
    const nowMs = performance.now();
    if (this.#lease === undefined || !isSameClaim(this.#lease, lease)) this.#claimedAtMs = nowMs;
    this.#observedAtMs = nowMs;
    this.#isStale = false;
    this.#exists = true;
    this.#lease = lease;
  }

  /**
   * The Lease does not exist. If somebody deleted it, its holder may still lead, so the last claim stays valid for its
   * duration.
   */
  observeAbsence(): void {
    this.#observedAtMs = performance.now();
    this.#isStale = false;
    this.#exists = false;
  }

  /** The described process has ended. Another candidate may hold the Lease by now. */
  markEnded(holder: string, description: string): void {
    this.#ended = { holder, description };
  }

  /** A write to the Lease had a Conflict. The Lease does not count as free until it is observed again. */
  markStale(): void {
    this.#isStale = true;
  }

  /** Milliseconds until the Lease may be taken; infinite if that is unknown. */
  get msUntilFree(): number {
    if (this.#observedAtMs === Number.NEGATIVE_INFINITY || this.#isStale) return Number.POSITIVE_INFINITY;
    const { holder } = this;
    // We are the holder if one of our writes succeeded but its response was lost.
    if (holder === undefined || holder === this.#options.identity || this.#hasHolderEnded()) return 0;
    const durationMs = (this.#lease?.spec?.leaseDurationSeconds ?? this.#ownDurationSeconds) * 1000;
    return Math.max(0, this.#claimedAtMs + durationMs - performance.now());
  }

  /**
   * Whether this standby has observed that the Lease was taken, renewed or released during the last two lease
   * durations. After the first duration this standby takes the Lease. If that fails during the second one, this standby
   * cannot read or write the Lease.
   */
  get isAlive(): boolean {
    const seconds = Math.max(this.#lease?.spec?.leaseDurationSeconds ?? 0, this.#ownDurationSeconds);
    return performance.now() - this.#claimedAtMs < 2 * seconds * 1000;
  }

  get #ownDurationSeconds(): number {
    return this.#options.leaseDurationSeconds ?? defaultTimings.leaseDurationSeconds;
  }

  /** Why the Lease may be taken, if {@link msUntilFree} is 0. */
  get freedBy(): TakeoverReason {
    const { holder } = this;
    if (!this.#exists) return 'absence';
    if (holder === undefined) return 'release';
    if (holder === this.#options.identity) return 'ownClaim';
    return this.#hasHolderEnded() ? 'crash' : 'expiry';
  }

  #hasHolderEnded(): boolean {
    const { holder, description } = this;
    if (holder === undefined || description === undefined) return false;
    return holder === this.#ended?.holder && description === this.#ended.description;
  }
}
