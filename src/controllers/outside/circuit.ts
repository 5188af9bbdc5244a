import type { Logger } from '../../runtime/index.ts';

/** A system outside of the cluster cannot be used: nothing was sent to it, or what was sent has had no good end. */
export class OutsideDownError extends Error {
  override readonly name = 'OutsideDownError';
  /** As its {@link Circuit} calls it. */
  readonly system: string;
  /** One CamelCase word, for a condition. */
  readonly reason: string;
  /** When it was first found down for that reason. */
  readonly since: Date;
  /** In how many milliseconds to ask again; each who asks has another answer. */
  readonly retryAfterMs: number;

  /** @param details.cause the first error of that reason, the same for all who meet it: a status would else change with each. */
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

/** What tells the time. */
export interface Clock {
  /** Milliseconds that only grow, from whenever. */
  elapsedMs(): number;
  /** What a calendar says. */
  now(): Date;
}

/** What a {@link Circuit} is made of. */
export interface CircuitOptions {
  /** What is outside, in words: `the database db.example:5432/app`. Stands in errors and in the log. */
  readonly system: string;
  /** Why an error means that the system cannot be used, as a CamelCase reason for a condition. Undefined if it does not. */
  readonly reasonOf: (error: unknown) => string | undefined;
  /**
   * Whether an error that means no outage is an answer of the system, which refused one request: that ends an outage. Any other
   * error, for example one of the API server or of a gate, says nothing about the system.
   */
  readonly isAnswer: (error: unknown) => boolean;
  /** Absent for one of many, each of which tells of itself elsewhere. */
  readonly log?: Logger;
  /** The pause before the first probe, in milliseconds; it doubles with each that fails. Default 500. */
  readonly probeAfterMs?: number;
  /** The longest pause between two probes, in milliseconds. Default 5,000. */
  readonly maxProbeAfterMs?: number;
  /** Is told when the system is found down, and when it is back. Must not throw. */
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
 * The way to a system outside of the cluster, which is cut as soon as the system is found down: ten thousand callers then
 * fail at once, without a request, and now and then one of them is let through as a probe. The first good answer opens the
 * way for all.
 *
 * Whoever is refused comes back after {@link retryAfterMs}. Two pauses after the system is back, all have: ten seconds by
 * default.
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
  /** When it last was known to answer. */
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

  /** Whether the way is cut: a call would be a probe, or be refused. */
  get isCut(): boolean {
    return this.#outage !== undefined;
  }

  /**
   * In how many milliseconds who was refused may call again: when the next probe is due, and up to one pause later, at
   * random, so that they do not come all at once.
   */
  get retryAfterMs(): number {
    const { probeAtMs = 0, pauseMs = this.#probeAfterMs } = this.#outage ?? {};
    return Math.max(0, probeAtMs - this.#clock.elapsedMs()) + this.#random() * pauseMs;
  }

  /**
   * Does the work, if the system can be used as far as is known, or if a probe is due.
   *
   * @param work is given `signal`. It must come to an end by itself, also where nothing ever answers.
   * @param signal of who asks. An error after it was aborted says nothing of the system, and is thrown as it is.
   * @throws OutsideDownError at once while the system is down, or because the work has found it so; what the work throws,
   *   where that is no outage.
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
      // What began before the last good answer tells of a time that is over.
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
    // Of the error its words alone: a library may hang a connection on it, with what it was opened by.
    const error = cause instanceof Error ? cause.message : String(cause);
    log?.warn({ system, reason, error }, 'what is outside cannot be used: calls wait');
    onChange?.(false);
    return this.#outage;
  }

  #error({ reason, since, cause }: Pick<Outage, 'reason' | 'since' | 'cause'>): OutsideDownError {
    return new OutsideDownError(this.system, { reason, since, cause, retryAfterMs: this.retryAfterMs });
  }
}
