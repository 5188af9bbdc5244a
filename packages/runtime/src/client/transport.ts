import type { Readable } from 'node:stream';
import { isPromise } from 'node:util/types';
import type { Dispatcher } from 'undici';
import { isUnauthorized } from './api-error.ts';
import type { AuthenticationHeaders, Connection, TlsOptions } from './connection.ts';
import { ConnectionPools } from './connection-pools.ts';
import { asDryRun } from './dry-run.ts';
import { Exchange, type RequestObserver } from './exchange.ts';
import type { Gate } from './gate.ts';
import { NoResponseError } from './no-response-error.ts';
import { errorOf } from './parse-response.ts';
import { Retries } from './retries.ts';
import { SharedAbortListeners } from './shared-abort-listeners.ts';

/** One request to the API server. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  /** Percent-encoded, without the question mark. */
  readonly query?: string | undefined;
  readonly body?: unknown;
  /** Default: `application/json`. */
  readonly accept?: string | undefined;
  /** Default: `application/json`. */
  readonly contentType?: string;
  readonly signal?: AbortSignal | undefined;
  /** Checked before each attempt. Default: no gate. */
  readonly gate?: Gate | undefined;
  /** Default: {@link TransportOptions.timeoutMs}. */
  readonly timeoutMs?: number;
  /** The most bytes of the response's body. Does not apply to watches. Default: no limit. */
  readonly maxBytes?: number | undefined;
}

/** Options of a {@link Transport}. */
export interface TransportOptions {
  readonly userAgent: string;
  /** The maximum number of requests in flight, not counting watches; further requests wait. Default 32. */
  readonly connections?: number;
  /**
   * The maximum time without data from the server: until the response starts, and between two chunks of its body. So a
   * large list may take longer in total. Does not apply to watches. Default 30,000.
   */
  readonly timeoutMs?: number;
  /** Called for each attempt, for metrics. */
  readonly observe?: RequestObserver;
}

/**
 * Sends HTTP requests to the API server over pooled keep-alive connections. Watches have separate connections.
 *
 * After a request without a response in time, further requests use new connections.
 *
 * Retries a request that the server refuses temporarily or certainly has not processed, as {@link Retries} decides.
 * After a 401 it retries once if the connection has new credentials.
 */
export class Transport {
  readonly #connection: Connection;
  readonly #pools: ConnectionPools;
  readonly #abortListeners = new SharedAbortListeners();
  readonly #userAgent: string;
  readonly #timeoutMs: number;
  readonly #observe: RequestObserver;
  readonly #origin: string;
  readonly #basePath: string;

  constructor(connection: Connection, options: TransportOptions) {
    const { origin, pathname } = connection.server;
    this.#connection = connection;
    this.#pools = new ConnectionPools(connection, options.connections ?? 32);
    this.#userAgent = options.userAgent;
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#observe = options.observe ?? (() => {});
    this.#origin = origin;
    this.#basePath = pathname.replace(/\/$/, '');
  }

  /**
   * Sends a request and returns the parsed JSON body of the response.
   *
   * @throws ApiError for a code of 400 and above, and for a body that is not JSON; NoResponseError if there is no
   *   complete response; ResponseTooLargeError; the signal's reason; the gate's error; the error of the connection's
   *   `authentication`.
   */
  async request(request: HttpRequest): Promise<unknown> {
    let retries: Retries | undefined;
    let rejection: Rejection | undefined;
    for (;;) {
      const headers = await this.#authenticate(request, rejection);
      const options = this.#options(request, headers);
      const exchange = new Exchange(nameOf(request), options, request, this.#abortListeners, this.#observe);
      const pool = this.#pools.requests;
      try {
        return await exchange.send(pool);
      } catch (error) {
        if (isTimeout(error)) this.#pools.replace(pool);
        rejection = this.#handleUnauthorized(error, headers, rejection);
        if (rejection?.error === error) continue;
        retries ??= new Retries(request.method, combineSignals(request.signal, request.gate?.signal));
        await retries.wait(error);
      }
    }
  }

  /**
   * Opens a watch and returns its body, which ends when the server closes it.
   *
   * The caller must reopen a watch whose connection fails, because only the caller knows the last resourceVersion. The
   * caller must also limit the time, because the server may be silent as long as the watch lasts. The gate is checked
   * before the connection is made, not at the first byte: a watch does not write. The gate's signal ends the watch.
   *
   * @throws like {@link Transport.request}.
   */
  async stream(request: HttpRequest): Promise<Readable> {
    let rejection: Rejection | undefined;
    for (;;) {
      const headers = await this.#authenticate(request, rejection);
      try {
        return await this.#open(request, headers);
      } catch (error) {
        rejection = this.#handleUnauthorized(error, headers, rejection);
        if (rejection?.error !== error) throw error;
      }
    }
  }

  /** Closes every connection at once; requests in flight fail. */
  async close(): Promise<void> {
    await this.#pools.close();
  }

  async #open(request: HttpRequest, headers: AuthenticationHeaders): Promise<Readable> {
    const { timeoutMs: _, ...watch } = request;
    const { headersTimeout, bodyTimeout, ...options } = this.#options(watch, headers);
    const signal = combineSignals(request.signal, request.gate?.signal);
    request.gate?.pass();
    const pool = this.#pools.watches;
    const response = await pool
      .request({ ...options, origin: this.#origin, ...(signal !== undefined && { signal }) })
      .catch((error: unknown) => {
        this.#observe(request.method, '<error>');
        if (isTimeout(error)) this.#pools.replace(pool);
        signal?.throwIfAborted();
        throw new NoResponseError(nameOf(request), error, true);
      });
    this.#observe(request.method, String(response.statusCode));
    if (response.statusCode < 400) return response.body;
    const retryAfter = response.headers['retry-after'];
    const text = await response.body.text();
    throw errorOf(nameOf(request), response.statusCode, text, typeof retryAfter === 'string' ? retryAfter : undefined);
  }

  /** Every request to the API server gets its options here, so this is where a dry run is enforced. */
  #options(given: HttpRequest, authentication: AuthenticationHeaders): Dispatcher.DispatchOptions {
    const request = this.#connection.isDryRunOnly === true ? asDryRun(given) : given;
    const { method, path, query = '', body, timeoutMs = this.#timeoutMs } = request;
    const headers = ['accept', request.accept ?? 'application/json', 'user-agent', this.#userAgent];
    if (body !== undefined) headers.push('content-type', request.contentType ?? 'application/json');
    for (const name in authentication) {
      const value = authentication[name] ?? '';
      if (typeof value === 'string') headers.push(name, value);
      else for (const item of value) headers.push(name, item);
    }
    return {
      origin: this.#origin,
      method,
      path: `${this.#basePath}${path}${query === '' ? '' : `?${query}`}`,
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
    };
  }

  /** Returns the headers for an attempt. After a 401, rethrows its error if the credentials have not changed. */
  async #authenticate(request: HttpRequest, rejection: Rejection | undefined): Promise<AuthenticationHeaders> {
    const { signal, timeoutMs = this.#timeoutMs } = request;
    signal?.throwIfAborted();
    try {
      const pending = this.#connection.authentication();
      const headers = isPromise(pending) ? await waitForCredentials(pending, signal, timeoutMs) : pending;
      if (rejection !== undefined && this.#isUnchanged(headers, rejection)) throw rejection.error;
      return headers;
    } catch (error) {
      if (error !== rejection?.error) this.#observe(request.method, '<error>');
      throw error;
    }
  }

  /** Invalidates the credentials and returns the rejection if this is the first 401 and they can be renewed. */
  #handleUnauthorized(
    error: unknown,
    headers: AuthenticationHeaders,
    earlier: Rejection | undefined,
  ): Rejection | undefined {
    if (earlier !== undefined || !isUnauthorized(error) || !this.#connection.invalidate) return earlier;
    const { tls } = this.#connection;
    this.#connection.invalidate(headers);
    return { error, headers, tls };
  }

  #isUnchanged(headers: AuthenticationHeaders, rejection: Rejection): boolean {
    return rejection.tls === this.#connection.tls && JSON.stringify(headers) === JSON.stringify(rejection.headers);
  }
}

/** The credentials that the server rejected with a 401. */
interface Rejection {
  readonly error: unknown;
  readonly headers: AuthenticationHeaders;
  readonly tls: TlsOptions;
}

function combineSignals(a: AbortSignal | undefined, b: AbortSignal | undefined): AbortSignal | undefined {
  return a === undefined || b === undefined ? (a ?? b) : AbortSignal.any([a, b]);
}

/** True if there was no response in time, by the limit of the request or by its signal (`AbortSignal.timeout`). */
function isTimeout(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  const { name, code }: { readonly name?: unknown; readonly code?: unknown } = error;
  return name === 'TimeoutError' || code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT';
}

const nameOf = (request: HttpRequest): string => `${request.method} ${request.path}`;

/** Limits the wait for credentials, because a plugin may hang: rejects on timeout or when the signal aborts. */
async function waitForCredentials<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
  timeoutMs: number,
): Promise<T> {
  const { promise: interrupted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal?.reason);
  const timeout = setTimeout(
    () => reject(new DOMException(`no credentials within ${timeoutMs} ms`, 'TimeoutError')),
    timeoutMs,
  );
  signal?.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([promise, interrupted]);
  } finally {
    clearTimeout(timeout);
    signal?.removeEventListener('abort', abort);
  }
}
