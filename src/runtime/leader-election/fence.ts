import type { Gate } from '../client/index.ts';
import { LeadershipLostError, NotLeadingError } from './errors.ts';
import { elapsedMsAtMost, type Instant } from './instant.ts';

/** A timer stands still while the machine is suspended: so long after it, at the latest, what was under way is ended. */
const checkMs = 1000;

/**
 * Lets requests begin only while this process surely leads: until a time after the last successful renewal of its Lease
 * was *sent*, for from then on the server may count, and others after it. Once closed it stays closed.
 *
 * The time is the larger of what the monotonic clock and the wall clock say, since the first stands still in a suspended
 * machine and the second may be set back. The clocks are read at each request, so that a process that was stopped, or
 * whose event loop was busy for too long, begins none when it comes back, whatever its timers have not told it yet.
 */
export class Fence implements Gate {
  readonly #termMs: number;
  readonly #closing = new AbortController();
  #renewedAt: Instant | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @param termMs for how long a renewal holds, in milliseconds. */
  constructor(termMs: number) {
    this.#termMs = termMs;
  }

  /** Aborted when the fence closes; the reason says why. */
  get signal(): AbortSignal {
    return this.#closing.signal;
  }

  /** For how much longer requests may begin, in milliseconds, if nothing is renewed. */
  get leftMs(): number {
    if (this.#renewedAt === undefined || this.signal.aborted) return 0;
    return Math.max(0, this.#termMs - elapsedMsAtMost(this.#renewedAt));
  }

  /** @throws NotLeadingError before the first {@link renewed}; once closed, the reason for that. */
  pass(): void {
    if (this.#renewedAt === undefined) throw new NotLeadingError('this process does not lead: it holds no lease yet');
    if (elapsedMsAtMost(this.#renewedAt) >= this.#termMs) this.#expire();
    this.signal.throwIfAborted();
  }

  /** Opens the fence, or keeps it open, unless it has closed. */
  renewed(sentAt: Instant): void {
    // What came too late opens nothing again: requests may have been refused since.
    if (this.#renewedAt !== undefined && elapsedMsAtMost(this.#renewedAt) >= this.#termMs) this.#expire();
    if (this.signal.aborted) return;
    this.#renewedAt = sentAt;
    clearTimeout(this.#timer);
    this.#checkAgain();
  }

  /** Closes the fence for good and ends what is under way. */
  close(reason: Error): void {
    clearTimeout(this.#timer);
    this.#closing.abort(reason);
  }

  #check(): void {
    if (this.#renewedAt === undefined) return;
    const leftMs = this.#termMs - elapsedMsAtMost(this.#renewedAt);
    if (leftMs <= 0) this.#expire();
    else this.#checkAgain();
  }

  #checkAgain(): void {
    this.#timer = setTimeout(() => this.#check(), Math.min(this.leftMs, checkMs));
  }

  #expire(): void {
    this.close(
      new LeadershipLostError(`the lease was not renewed within ${this.#termMs / 1000} s: another may lead by now`),
    );
  }
}
