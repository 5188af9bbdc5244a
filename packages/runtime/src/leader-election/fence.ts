import type { Gate } from '../client/gate.ts';
import { LeadershipLostError, NotLeadingError } from './errors.ts';
import { type Instant, maxElapsedMs } from './instant.ts';

/**
 * The longest time between two checks of the deadline. Timers stop while the machine is suspended, so one timer for the
 * whole deadline would fire late.
 */
const checkIntervalMs = 1000;

/**
 * Allows a request only while this process certainly leads: until the renew deadline has passed since the last
 * successful renewal was *sent*. Other candidates count from when they observed that renewal, which is later. A closed
 * fence never reopens.
 *
 * The elapsed time is the larger of the monotonic and the wall clock's. The monotonic clock stops while the machine is
 * suspended. The wall clock may be set back. The fence reads both at each request, so a process that was stopped or
 * blocked begins no request afterwards, even if its timers have not fired yet.
 */
export class Fence implements Gate {
  readonly #renewDeadlineMs: number;
  readonly #closing = new AbortController();
  #renewedAt: Instant | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @param renewDeadlineMs how long the fence stays open after a renewal, in milliseconds. */
  constructor(renewDeadlineMs: number) {
    this.#renewDeadlineMs = renewDeadlineMs;
  }

  /** Aborted when the fence closes. Its reason is the reason for closing. */
  get signal(): AbortSignal {
    return this.#closing.signal;
  }

  /** How much longer requests may begin without another renewal, in milliseconds. */
  get remainingMs(): number {
    if (this.#renewedAt === undefined || this.signal.aborted) return 0;
    return Math.max(0, this.#renewDeadlineMs - maxElapsedMs(this.#renewedAt));
  }

  /**
   * @throws NotLeadingError before the first {@link extend}; the reason for closing, such as LeadershipLostError, once
   *   the fence is closed.
   */
  pass(): void {
    if (this.#renewedAt === undefined) throw new NotLeadingError('this process does not lead: it holds no lease yet');
    if (this.#hasExpired(this.#renewedAt)) this.#expire();
    this.signal.throwIfAborted();
  }

  /**
   * Opens the fence, or keeps it open, after a successful renewal.
   *
   * @param sentAt when the renewal was sent.
   */
  extend(sentAt: Instant): void {
    // A renewal that arrives after the deadline does not count: requests may have been refused since.
    if (this.#renewedAt !== undefined && this.#hasExpired(this.#renewedAt)) this.#expire();
    if (this.signal.aborted) return;
    this.#renewedAt = sentAt;
    clearTimeout(this.#timer);
    this.#scheduleCheck();
  }

  /** Closes the fence for good and aborts the requests in flight. */
  close(reason: Error): void {
    clearTimeout(this.#timer);
    this.#closing.abort(reason);
  }

  #hasExpired(renewedAt: Instant): boolean {
    return maxElapsedMs(renewedAt) >= this.#renewDeadlineMs;
  }

  #check(): void {
    if (this.#renewedAt === undefined) return;
    if (this.#hasExpired(this.#renewedAt)) this.#expire();
    else this.#scheduleCheck();
  }

  #scheduleCheck(): void {
    this.#timer = setTimeout(() => this.#check(), Math.min(this.remainingMs, checkIntervalMs));
  }

  #expire(): void {
    const seconds = this.#renewDeadlineMs / 1000;
    this.close(
      new LeadershipLostError(
        `the lease was not renewed within ${seconds} s: another candidate may lead by now`,
        'expiry',
      ),
    );
  }
}
