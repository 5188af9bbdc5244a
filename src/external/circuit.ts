import type { Logger } from '@echoperator/runtime';

/** An external system cannot be used: the request failed, or was not sent. */
export class ExternalSystemDownError extends Error {
  override readonly name = 'ExternalSystemDownError';
  /** A CamelCase reason for a condition. */
  readonly reason: string;
  /** When the system was first found down for that reason. */
  readonly since: Date;
  /** When a request last found the system down. Earlier than this error if the request was not sent. */
  readonly failedAt: Date;
  /** After how many milliseconds to call again. The jitter differs for each caller. */
  readonly retryAfterMs: number;

  /**
   * @param details.cause the first error with that reason. All callers get the same error, so that a status does not
   *   change with each call.
   */
  constructor(
    system: string,
    details: {
      readonly reason: string;
      readonly since: Date;
      readonly failedAt: Date;
      readonly cause: unknown;
      readonly retryAfterMs: number;
    },
  ) {
    const { reason, since, failedAt, cause, retryAfterMs } = details;
    super(`${system}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.reason = reason;
    this.since = since;
    this.failedAt = failedAt;
    this.retryAfterMs = retryAfterMs;
  }
}

/** A source of the time. */
export interface Clock {
  /** Milliseconds of a monotonic clock. */
  elapsedMs(): number;
  /** The time of day. */
  now(): Date;
}

/** Options of a {@link Circuit}. */
export interface CircuitOptions {
  /** The name of the system in errors and in the log: `the database db.example:5432/app`. */
  readonly system: string;
  /** The CamelCase reason for a condition if the error means that the system cannot be used. Otherwise undefined. */
  readonly reasonOf: (error: unknown) => string | undefined;
  /**
   * Whether an error without a reason is a response of the system, which refused one request. A response ends an
   * outage. Any other error, for example of the API server or of a gate, says nothing about the system.
   */
  readonly isResponse: (error: unknown) => boolean;
  /** Absent: the circuit logs nothing. */
  readonly log?: Logger;
  /** The pause before the first probe, in milliseconds. It doubles with each failed probe. Default 500. */
  readonly probeAfterMs?: number;
  /** The longest pause between two probes, in milliseconds. Default 5,000. */
  readonly maxProbeAfterMs?: number;
  /** Called when an outage begins and when it ends. Must not throw. */
  readonly onChange?: (up: boolean) => void;
  /** Default: the clock of the process. */
  readonly clock?: Clock;
  /** Returns a number from 0 to below 1. Default `Math.random`. */
  readonly random?: () => number;
}

interface Outage {
  since: Date;
  failedAt: Date;
  reason: string;
  cause: unknown;
  pauseMs: number;
  /** A value of the clock's `elapsedMs`. */
  probeAtMs: number;
  probing: boolean;
}

const processClock: Clock = { elapsedMs: () => performance.now(), now: () => new Date() };

/**
 * A circuit breaker for an external system. When a call finds the system down, the circuit opens: further calls fail at
 * once, without a request. After a pause one call is sent as a probe. The first response closes the circuit again.
 *
 * A refused caller calls again after {@link retryAfterMs}. So all callers have called again within two pauses after the
 * system is back: ten seconds by default.
 *
 * @example
 * const circuit = new Circuit({
 *   system: 'the pet store',
 *   reasonOf: (error) => (isUnavailable(error) ? 'StoreDown' : undefined),
 *   isResponse: (error) => error instanceof StoreError,
 *   log,
 * });
 * try {
 *   await circuit.call((signal) => store.addPets(pets, { signal }), context.signal);
 * } catch (error) {
 *   if (!(error instanceof ExternalSystemDownError)) throw error;
 *   await report(error.reason, error.message);
 *   return requeueAfter(error.retryAfterMs);
 * }
 */
export class Circuit {
  readonly #options: CircuitOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #probeAfterMs: number;
  readonly #maxProbeAfterMs: number;
  #outage: Outage | undefined;
  /** When the system last responded, by the clock's `elapsedMs`. */
  #respondedAtMs = Number.NEGATIVE_INFINITY;

  /** @throws RangeError for invalid pauses. */
  constructor(options: CircuitOptions) {
    const { probeAfterMs = 500, maxProbeAfterMs = 5000, clock = processClock, random = Math.random } = options;
    if (!(probeAfterMs > 0 && maxProbeAfterMs >= probeAfterMs)) {
      throw new RangeError(`expected 0 < probeAfterMs <= maxProbeAfterMs, got ${probeAfterMs} and ${maxProbeAfterMs}`);
    }
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
    this.#probeAfterMs = probeAfterMs;
    this.#maxProbeAfterMs = maxProbeAfterMs;
  }

  /** Whether the last calls found the system down. Then the next call is a probe or fails at once. */
  get isOpen(): boolean {
    return this.#outage !== undefined;
  }

  /**
   * After how many milliseconds a refused caller should call again: when the next probe is due, plus up to one pause of
   * jitter.
   */
  get retryAfterMs(): number {
    const { probeAtMs = 0, pauseMs = this.#probeAfterMs } = this.#outage ?? {};
    return Math.max(0, probeAtMs - this.#clock.elapsedMs()) + this.#random() * pauseMs;
  }

  /**
   * Runs the work if the circuit is closed or a probe is due.
   *
   * @param work receives `signal`. It needs its own timeout.
   * @param signal of the caller. After it is aborted, an error of the work says nothing about the system and is
   *   rethrown.
   * @throws ExternalSystemDownError at once while the circuit is open, or if the work finds the system down; otherwise any
   *   error of the work.
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
      this.#responded();
      return result;
    } catch (error) {
      if (signal.aborted) throw error;
      const { reasonOf, isResponse } = this.#options;
      const reason = reasonOf(error);
      if (reason !== undefined) throw this.#failed(reason, error, { startedAtMs, isProbe: probed !== undefined });
      if (isResponse(error)) this.#responded();
      throw error;
    } finally {
      if (probed !== undefined) probed.probing = false;
    }
  }

  /** Returns the outage if this call is its probe. */
  #admit(): Outage | undefined {
    const outage = this.#outage;
    if (outage === undefined) return undefined;
    if (outage.probing || this.#clock.elapsedMs() < outage.probeAtMs) throw this.#error(outage);
    outage.probing = true;
    return outage;
  }

  #responded(): void {
    this.#respondedAtMs = this.#clock.elapsedMs();
    if (this.#outage === undefined) return;
    const { system, log, onChange } = this.#options;
    log?.info({ system, since: this.#outage.since.toISOString() }, 'the external system can be used again');
    this.#outage = undefined;
    onChange?.(true);
  }

  #failed(
    reason: string,
    cause: unknown,
    { startedAtMs, isProbe }: { readonly startedAtMs: number; readonly isProbe: boolean },
  ): ExternalSystemDownError {
    const outage = this.#outage;
    const now = this.#clock.now();
    if (outage === undefined) {
      // A call that began before the last response says nothing about the current state.
      const isStale = startedAtMs < this.#respondedAtMs;
      return isStale
        ? this.#error({ since: now, failedAt: now, reason, cause })
        : this.#error(this.#open(reason, cause, now));
    }
    outage.failedAt = now;
    if (outage.reason !== reason) Object.assign(outage, { reason, cause, since: now });
    if (isProbe) {
      outage.pauseMs = Math.min(outage.pauseMs * 2, this.#maxProbeAfterMs);
      outage.probeAtMs = this.#clock.elapsedMs() + outage.pauseMs;
    }
    return this.#error(outage);
  }

  #open(reason: string, cause: unknown, now: Date): Outage {
    const { system, log, onChange } = this.#options;
    const pauseMs = this.#probeAfterMs;
    const probeAtMs = this.#clock.elapsedMs() + pauseMs;
    this.#outage = { since: now, failedAt: now, reason, cause, pauseMs, probeAtMs, probing: false };
    // Log only the message: a library may attach the connection, with its credentials, to the error.
    const error = cause instanceof Error ? cause.message : String(cause);
    log?.warn({ system, reason, error }, 'the external system cannot be used: calls fail until a probe succeeds');
    onChange?.(false);
    return this.#outage;
  }

  #error(outage: Pick<Outage, 'reason' | 'since' | 'failedAt' | 'cause'>): ExternalSystemDownError {
    const { reason, since, failedAt, cause } = outage;
    return new ExternalSystemDownError(this.#options.system, {
      reason,
      since,
      failedAt,
      cause,
      retryAfterMs: this.retryAfterMs,
    });
  }
}
