import { pause } from '../shared/pause.ts';
import { ApiError } from './api-error.ts';
import { NoResponseError } from './no-response-error.ts';

/** The maximum number of attempts per request, and the maximum sum of its pauses. */
const maxAttempts = 10;
const maxTotalPauseMs = 30_000;

/** Three quick retries after a failed connection; callers back off themselves. */
const reconnectPausesMs: readonly number[] = [50, 200, 800];

/** Connection errors that may be gone in a moment, unlike an invalid certificate or an unknown host. */
const transientErrorCodes = new Set([
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EPIPE',
  'UND_ERR_SOCKET',
]);

/**
 * Decides whether and when a failed request is sent again. It retries:
 *
 * - a 429 or 503 with a Retry-After header, after that time; a write only if the 503 is from the API server, not from a
 *   proxy;
 * - a request that was not sent (refused, reset or unreachable connection), after a short pause;
 * - a GET, lists included, whose connection broke, after a short pause.
 *
 * So a write is retried only if the server did not execute it. A write that was sent and has no response is never
 * retried. The transport itself retries a 401 with new credentials.
 */
export class Retries {
  readonly #method: string;
  readonly #signal: AbortSignal | undefined;
  #attempts = 1;
  #reconnects = 0;
  #totalPauseMs = 0;

  constructor(method: string, signal: AbortSignal | undefined) {
    this.#method = method;
    this.#signal = signal;
  }

  /**
   * Waits until the request may be sent again.
   *
   * @throws the given error if a retry is useless or unsafe, or if the limits are reached; the signal's reason.
   */
  async wait(error: unknown): Promise<void> {
    const pauseMs = this.#pauseMs(error);
    if (pauseMs === undefined || this.#attempts === maxAttempts) throw error;
    if (this.#totalPauseMs + pauseMs > maxTotalPauseMs) throw error;
    this.#attempts += 1;
    this.#totalPauseMs += pauseMs;
    await pause(pauseMs, this.#signal);
    this.#signal?.throwIfAborted();
  }

  #pauseMs(error: unknown): number | undefined {
    if (error instanceof ApiError) return this.#retryAfterMs(error);
    if (!(error instanceof NoResponseError) || !transientErrorCodes.has(error.code ?? '')) return undefined;
    if (error.wasSent && this.#method !== 'GET') return undefined;
    const pauseMs = reconnectPausesMs[this.#reconnects];
    this.#reconnects += 1;
    return pauseMs;
  }

  #retryAfterMs({ code, reason, retryAfterSeconds }: ApiError): number | undefined {
    if ((code !== 429 && code !== 503) || retryAfterSeconds === undefined) return undefined;
    // A 503 without a Status comes from a proxy, which may have forwarded the request.
    if (code === 503 && reason === 'Unknown' && this.#method !== 'GET') return undefined;
    // Add up to 10 % jitter, so that requests refused together do not return together.
    return retryAfterSeconds * 1000 * (1 + 0.1 * Math.random());
  }
}
