import type { Lease } from '../kinds/index.ts';
import { type HolderContainer, isSameContainer } from './holder-container.ts';
import { containerOf, holderOf, isSameClaim } from './lease.ts';
import { defaultTimings } from './timings.ts';

/**
 * What a standby knows of the Lease, and since when by its own clock: the times on the Lease are another machine's, and
 * say nothing here but that they have changed.
 */
export class ObservedLease {
  readonly #identity: string;
  readonly #leaseDurationSeconds: number;
  #lease: Lease | undefined;
  #looked = false;
  #exists = false;
  /** Since when the claim has been this one (performance.now). */
  #sinceMs = 0;
  /** The container whose end was proven last. It stays ended, whatever is seen of the Lease after that. */
  #ended: HolderContainer | undefined;
  /** Our own write on it failed because it had changed: what is known here is not the last. */
  #isOutdated = false;
  #heardAtMs = Number.NEGATIVE_INFINITY;

  /**
   * @param identity the standby's own.
   * @param leaseDurationSeconds for how long a claim holds that does not say so. Default 15.
   */
  constructor(identity: string, leaseDurationSeconds = defaultTimings.leaseDurationSeconds) {
    this.#identity = identity;
    this.#leaseDurationSeconds = leaseDurationSeconds;
  }

  /** The Lease to write on; undefined where there is none. */
  get lease(): Lease | undefined {
    return this.#exists ? this.#lease : undefined;
  }

  get holder(): string | undefined {
    return this.#lease === undefined ? undefined : holderOf(this.#lease);
  }

  get container(): HolderContainer | undefined {
    return this.#lease === undefined ? undefined : containerOf(this.#lease);
  }

  /** For how long nothing was heard of the Lease. */
  get silentMs(): number {
    return performance.now() - this.#heardAtMs;
  }

  saw(lease: Lease): void {
    const nowMs = performance.now();
    this.#heardAtMs = nowMs;
    if (this.#lease === undefined || !isSameClaim(this.#lease, lease)) {
      this.#sinceMs = nowMs;
    }
    this.#looked = true;
    this.#isOutdated = false;
    this.#exists = true;
    this.#lease = lease;
  }

  /**
   * There is no Lease. If there was one, its holder has not stopped because somebody deleted it: what it was granted it
   * keeps.
   */
  sawNone(): void {
    this.#heardAtMs = performance.now();
    this.#looked = true;
    this.#isOutdated = false;
    this.#exists = false;
  }

  /** Of the one that has ended, by its container: whoever holds the Lease by then may be another. */
  sawEnd(of: HolderContainer): void {
    this.#ended = of;
  }

  /** A write on it was refused because it has changed: it is not free before it was seen again. */
  outdated(): void {
    this.#isOutdated = true;
  }

  /** How long it is until the Lease may be taken; infinite before anything is known of it. */
  get freeInMs(): number {
    if (!this.#looked || this.#isOutdated) return Number.POSITIVE_INFINITY;
    const { holder } = this;
    // Our own, if a write of ours came through whose answer did not.
    if (holder === undefined || holder === this.#identity || this.#holderHasEnded()) return 0;
    const leaseDurationMs = (this.#lease?.spec?.leaseDurationSeconds ?? this.#leaseDurationSeconds) * 1000;
    return Math.max(0, this.#sinceMs + leaseDurationMs - performance.now());
  }

  #holderHasEnded(): boolean {
    const { container } = this;
    return container !== undefined && isSameContainer(container, this.#ended);
  }
}
