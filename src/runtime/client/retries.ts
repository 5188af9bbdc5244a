import { setTimeout as delay } from 'node:timers/promises';
import { ApiError } from './api-error.ts';
import { NoAnswerError } from './no-answer-error.ts';

/** How often one request is sent at the most, as client-go's, and how long all its pauses together may be. */
const maxTries = 10;
const maxWaitMs = 30_000;

/** After a connection that failed: soon, three times, since whoever asks has a back-off of its own. */
const reconnectMs: readonly number[] = [50, 200, 800];

/** Failures of a connection that may be over in a moment; others (a bad certificate, no such host) will not. */
const passing = new Set([
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EPIPE',
  'UND_ERR_SOCKET',
]);

/**
 * Whether, and when, one request that failed is sent again:
 *
 * - what the server refused with 429 or 503 and a Retry-After, when that time is over;
 * - what never left for the server, because no connection came about, after a short pause;
 * - a GET whose connection broke, after a short pause.
 *
 * A write that may have reached the server is never sent again: it may have been done.
 */
export class Retries {
  readonly #method: string;
  readonly #signal: AbortSignal | undefined;
  #tries = 1;
  #reconnects = 0;
  #waitedMs = 0;

  constructor(method: string, signal: AbortSignal | undefined) {
    this.#method = method;
    this.#signal = signal;
  }

  /**
   * Resolves when it is time to send the request again.
   *
   * @throws the error itself where that will not help, is not safe, or has been tried often and long enough; the
   *   signal's reason.
   */
  async wait(error: unknown): Promise<void> {
    const pauseMs = this.#pauseMs(error);
    if (pauseMs === undefined || this.#tries === maxTries || this.#waitedMs + pauseMs > maxWaitMs) throw error;
    this.#tries += 1;
    this.#waitedMs += pauseMs;
    await delay(pauseMs, undefined, { signal: this.#signal }).catch(() => {});
    this.#signal?.throwIfAborted();
  }

  #pauseMs(error: unknown): number | undefined {
    if (error instanceof ApiError) return this.#refusalPauseMs(error);
    if (!(error instanceof NoAnswerError) || !passing.has(error.code ?? '')) return undefined;
    if (error.sent && this.#method !== 'GET') return undefined;
    const pauseMs = reconnectMs[this.#reconnects];
    this.#reconnects += 1;
    return pauseMs;
  }

  #refusalPauseMs({ code, reason, retryAfterSeconds }: ApiError): number | undefined {
    if ((code !== 429 && code !== 503) || retryAfterSeconds === undefined) return undefined;
    // A 503 without a Status comes from something in between, which may have passed the request on all the same.
    if (code === 503 && reason === 'Unknown' && this.#method !== 'GET') return undefined;
    // All who were refused at once should not come back at once.
    return retryAfterSeconds * 1000 * (1 + 0.1 * Math.random());
  }
}
