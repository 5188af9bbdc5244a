import type { Logger } from '../../runtime/index.ts';

/** A system outside of the cluster cannot be used: nothing was sent to it, or the request has failed. */
export class OutsideDownError extends Error {
  override readonly name = 'OutsideDownError';
  /** The `system` of its {@link Circuit}. */
  readonly system: string;
  /** A CamelCase reason for a condition. */
  readonly reason: string;
  /** When the system was first found down for that reason. */
  readonly since: Date;
  /** After how many milliseconds to call again, with jitter: another value for each caller. */
  readonly retryAfterMs: number;

  /** @param details.cause the first error of that reason, the same for all callers: otherwise a status would change with each call. */
  constructor(
    system: string,
    details: { readonly reason: string; readonly since: Date; readonly cause: unknown; readonly retryAfterMs: number },
  ) {
    const { reason, since, cause, retryAfterMs } = details;
    super(`${system}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.system = system;
    this.reason = reason;
    this.since = since;
    this.retryAfterMs = retryAfterMs;
  }
}

/** Tells the time. */
export interface Clock {
  /** Milliseconds of a monotonic clock. */
  elapsedMs(): number;
  /** The time of day. */
  now(): Date;
}

/** What a {@link Circuit} is made of. */
export interface CircuitOptions {
  /** The system, for errors and the log: `the database db.example:5432/app`. */
  readonly system: string;
  /** Why an error means that the system cannot be used, as a CamelCase reason for a condition. Undefined if it does not. */
  readonly reasonOf: (error: unknown) => string | undefined;
  /**
   * Whether an error that means no outage is an answer of the system, which refused one request: that ends an outage. Any other
   * error, for example one of the API server or of a gate, says nothing about the system.
   */
  readonly isAnswer: (error: unknown) => boolean;
  /** Absent: the circuit logs nothing. */
  readonly log?: Logger;
  /** The pause before the first probe, in milliseconds; it doubles with each that fails. Default 500. */
  readonly probeAfterMs?: number;
  /** The longest pause between two probes, in milliseconds. Default 5,000. */
  readonly maxProbeAfterMs?: number;
  /** Called when the system is found down, and when it is back. Must not throw. */
  readonly onChange?: (up: boolean) => void;
  /** Default: that of the process. */
  readonly clock?: Clock;
  /** From 0 to below 1. Default `Math.random`. */
  readonly random?: () => number;
}

interface Outage {
  since: Date;
  reason: string;
  cause: unknown;
  pauseMs: number;
  /** By the clock's `elapsedMs`. */
  probeAtMs: number;
  probing: boolean;
}

const processClock: Clock = { elapsedMs: () => performance.now(), now: () => new Date() };

/**
 * A circuit breaker before a system outside of the cluster. As soon as a call finds the system down, further calls fail at once,
 * without a request. From time to time one call is let through as a probe; the first good answer lets all calls through again.
 *
 * A refused caller calls again after {@link retryAfterMs}. So all have called again within two pauses after the system is back:
 * ten seconds by default.
 *
 * @example
 * const circuit = new Circuit({
 *   system: 'the pet store',
 *   reasonOf: (error) => (isUnavailable(error) ? 'StoreDown' : undefined),
 *   isAnswer: (error) => error instanceof StoreError,
 *   log,
 * });
 * try {
 *   await circuit.call((signal) => store.addPets(pets, { signal }), context.signal);
 * } catch (error) {
 *   if (!(error instanceof OutsideDownError)) throw error;
 *   await report(error.reason, error.message);
 *   return requeueAfter(error.retryAfterMs);
 * }
 */
export class Circuit {
  readonly system: string;
  readonly #options: CircuitOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #probeAfterMs: number;
  readonly #maxProbeAfterMs: number;
  #outage: Outage | undefined;
  /** When the system last answered. */
  #answeredAtMs = Number.NEGATIVE_INFINITY;

  /** @throws RangeError for pauses that make no sense. */
  constructor(options: CircuitOptions) {
    const { system, probeAfterMs = 500, maxProbeAfterMs = 5000, clock = processClock, random = Math.random } = options;
    if (!(probeAfterMs > 0 && maxProbeAfterMs >= probeAfterMs)) {
      throw new RangeError(`probes take pauses above 0 ms that grow, not from ${probeAfterMs} to ${maxProbeAfterMs}`);
    }
    this.system = system;
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
    this.#probeAfterMs = probeAfterMs;
    this.#maxProbeAfterMs = maxProbeAfterMs;
  }

  /** Whether the system is down as far as is known: a call would be a probe, or be refused. */
  get isCut(): boolean {
    return this.#outage !== undefined;
  }

  /**
   * After how many milliseconds a refused caller may call again: when the next probe is due, plus up to one pause of jitter.
   */
  get retryAfterMs(): number {
    const { probeAtMs = 0, pauseMs = this.#probeAfterMs } = this.#outage ?? {};
    return Math.max(0, probeAtMs - this.#clock.elapsedMs()) + this.#random() * pauseMs;
  }

  /**
   * Does the work if the system is up as far as is known, or if a probe is due.
   *
   * @param work is given `signal`. It must end by itself, also if nothing ever answers.
   * @param signal of the caller. An error after it was aborted says nothing about the system, and is thrown as it is.
   * @throws OutsideDownError at once while the system is down, or because the work has found it down; what the work throws, if
   *   that means no outage.
   */
  async call<T>(
    work: (signal: AbortSignal) => Promise<T>,
    signal: AbortSignal = new AbortController().signal,
  ): Promise<T> {
    signal.throwIfAborted();
    const probed = this.#admit();
    const startedAtMs = this.#clock.elapsedMs();
    try {
      const result = await work(signal);
      this.#answered();
      return result;
    } catch (error) {
      if (signal.aborted) throw error;
      const { reasonOf, isAnswer } = this.#options;
      const reason = reasonOf(error);
      if (reason !== undefined) throw this.#failed(reason, error, { startedAtMs, isProbe: probed !== undefined });
      if (isAnswer(error)) this.#answered();
      throw error;
    } finally {
      if (probed !== undefined) probed.probing = false;
    }
  }

  /** The outage, if this call is its probe. */
  #admit(): Outage | undefined {
    const outage = this.#outage;
    if (outage === undefined) return undefined;
    if (outage.probing || this.#clock.elapsedMs() < outage.probeAtMs) throw this.#error(outage);
    outage.probing = true;
    return outage;
  }

  #answered(): void {
    this.#answeredAtMs = this.#clock.elapsedMs();
    if (this.#outage === undefined) return;
    const { system, log, onChange } = this.#options;
    log?.info({ system, since: this.#outage.since.toISOString() }, 'what is outside can be used again');
    this.#outage = undefined;
    onChange?.(true);
  }

  #failed(
    reason: string,
    cause: unknown,
    { startedAtMs, isProbe }: { readonly startedAtMs: number; readonly isProbe: boolean },
  ): OutsideDownError {
    const outage = this.#outage;
    if (outage === undefined) {
      // A call that began before the last good answer says nothing about the present.
      const isStale = startedAtMs < this.#answeredAtMs;
      return isStale ? this.#error({ since: this.#clock.now(), reason, cause }) : this.#error(this.#cut(reason, cause));
    }
    if (outage.reason !== reason) Object.assign(outage, { reason, cause, since: this.#clock.now() });
    if (isProbe) {
      outage.pauseMs = Math.min(outage.pauseMs * 2, this.#maxProbeAfterMs);
      outage.probeAtMs = this.#clock.elapsedMs() + outage.pauseMs;
    }
    return this.#error(outage);
  }

  #cut(reason: string, cause: unknown): Outage {
    const { system, log, onChange } = this.#options;
    const pauseMs = this.#probeAfterMs;
    const probeAtMs = this.#clock.elapsedMs() + pauseMs;
    this.#outage = { since: this.#clock.now(), reason, cause, pauseMs, probeAtMs, probing: false };
    // Only the message is logged: a library may attach the connection to the error, with its credentials.
    const error = cause instanceof Error ? cause.message : String(cause);
    log?.warn({ system, reason, error }, 'what is outside cannot be used: calls wait');
    onChange?.(false);
    return this.#outage;
  }

  #error({ reason, since, cause }: Pick<Outage, 'reason' | 'since' | 'cause'>): OutsideDownError {
    return new OutsideDownError(this.system, { reason, since, cause, retryAfterMs: this.retryAfterMs });
  }
}
