import type { Readable } from 'node:stream';
import { isPromise } from 'node:util/types';
import type { Dispatcher } from 'undici';
import { parseAnswer } from './answer.ts';
import { isUnauthorized } from './api-error.ts';
import { Cancellations } from './cancellations.ts';
import type { AuthenticationHeaders, Connection, TlsOptions } from './connection.ts';
import { ConnectionPools } from './connection-pools.ts';
import { Exchange, type RequestObserver } from './exchange.ts';
import type { Gate } from './gate.ts';
import { NoAnswerError } from './no-answer-error.ts';
import { Retries } from './retries.ts';

/** One request to the API server. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  /** Encoded, without the question mark. */
  readonly query?: string | undefined;
  readonly body?: unknown;
  /** Default: `application/json`. */
  readonly accept?: string | undefined;
  /** Default: `application/json`. */
  readonly contentType?: string;
  readonly signal?: AbortSignal | undefined;
  /** What it has to pass each time that it is sent. Default: nothing. */
  readonly gate?: Gate | undefined;
  /** Default: {@link TransportOptions.timeoutMs}. */
  readonly timeoutMs?: number;
}

/** Options of a {@link Transport}. */
export interface TransportOptions {
  readonly userAgent: string;
  /** How many requests may be under way at once; more wait. Default 32. */
  readonly connections?: number;
  /**
   * How long the server may be silent over a request that is not a watch: until the answer begins, and from each piece
   * of it to the next, so that a big list may take its time. Default 30,000.
   */
  readonly timeoutMs?: number;
  readonly observe?: RequestObserver;
}

/**
 * HTTP to the API server over pooled keep-alive connections; watches have connections of their own.
 *
 * A request that the server refuses for now, or that surely was not processed, is sent again: {@link Retries} tells
 * which and when. After a 401 it is sent once more if the connection has other credentials by then.
 */
export class Transport {
  readonly #connection: Connection;
  readonly #pools: ConnectionPools;
  readonly #cancellations = new Cancellations();
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
   * Sends a request and returns the answer's JSON.
   *
   * @throws ApiError for an answer of 400 and above, or for one that is not JSON; NoAnswerError where there was none;
   *   the signal's reason; why the gate is closed; what the connection's authentication throws.
   */
  async request(request: HttpRequest): Promise<unknown> {
    let retries: Retries | undefined;
    let refusal: Refusal | undefined;
    for (;;) {
      const headers = await this.#authenticate(request, refusal);
      const options = this.#options(request, headers);
      const exchange = new Exchange(nameOf(request), options, request, this.#cancellations, this.#observe);
      try {
        return await exchange.send(this.#pools.requests);
      } catch (error) {
        refusal = this.#renewable(error, headers, refusal);
        if (refusal?.error === error) continue;
        retries ??= new Retries(request.method, eitherOf(request.signal, request.gate?.signal));
        await retries.wait(error);
      }
    }
  }

  /**
   * Opens a watch; the body ends when the server closes it. A connection that fails is the caller's to open again: it knows
   * where the watch has come to. So is a time limit: a server may have nothing to say for as long as the watch lasts. It passes its gate before the connection is
   * made, and is ended with it: a watch writes nothing.
   *
   * @throws as {@link Transport.request} does.
   */
  async stream(request: HttpRequest): Promise<Readable> {
    let refusal: Refusal | undefined;
    for (;;) {
      const headers = await this.#authenticate(request, refusal);
      try {
        return await this.#open(request, headers);
      } catch (error) {
        refusal = this.#renewable(error, headers, refusal);
        if (refusal?.error !== error) throw error;
      }
    }
  }

  /** Closes every connection at once; requests under way fail. */
  async close(): Promise<void> {
    await this.#pools.close();
  }

  async #open(request: HttpRequest, headers: AuthenticationHeaders): Promise<Readable> {
    const { timeoutMs: _, ...watch } = request;
    const { headersTimeout, bodyTimeout, ...options } = this.#options(watch, headers);
    const signal = eitherOf(request.signal, request.gate?.signal);
    request.gate?.pass();
    const response = await this.#pools.watches
      .request({ ...options, origin: this.#origin, ...(signal !== undefined && { signal }) })
      .catch((error: unknown) => {
        this.#observe(request.method, '<error>');
        signal?.throwIfAborted();
        throw new NoAnswerError(nameOf(request), error, true);
      });
    this.#observe(request.method, String(response.statusCode));
    if (response.statusCode < 400) return response.body;
    const retryAfter = response.headers['retry-after'];
    const text = await response.body.text();
    parseAnswer(nameOf(request), response.statusCode, text, typeof retryAfter === 'string' ? retryAfter : undefined);
    return response.body;
  }

  #options(request: HttpRequest, authentication: AuthenticationHeaders): Dispatcher.DispatchOptions {
    const { method, path, query = '', body, timeoutMs = this.#timeoutMs } = request;
    const headers = ['accept', request.accept ?? 'application/json', 'user-agent', this.#userAgent];
    if (body !== undefined) headers.push('content-type', request.contentType ?? 'application/json');
    for (const name in authentication) {
      const value = authentication[name] ?? '';
      if (typeof value === 'string') headers.push(name, value);
      else for (const one of value) headers.push(name, one);
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

  /** The headers for a request; after a refusal only if something has changed. */
  async #authenticate(request: HttpRequest, refusal: Refusal | undefined): Promise<AuthenticationHeaders> {
    const { signal, timeoutMs = this.#timeoutMs } = request;
    signal?.throwIfAborted();
    try {
      const pending = this.#connection.authentication();
      const headers = isPromise(pending) ? await inTime(pending, signal, timeoutMs) : pending;
      if (refusal !== undefined && this.#isRefused(headers, refusal)) throw refusal.error;
      return headers;
    } catch (error) {
      if (error !== refusal?.error) this.#observe(request.method, '<error>');
      throw error;
    }
  }

  /** A 401, if it is the first and the connection can renew what was refused. */
  #renewable(error: unknown, headers: AuthenticationHeaders, earlier: Refusal | undefined): Refusal | undefined {
    if (earlier !== undefined || !isUnauthorized(error) || !this.#connection.unauthorized) return earlier;
    const { tls } = this.#connection;
    this.#connection.unauthorized(headers);
    return { error, headers, tls };
  }

  #isRefused(headers: AuthenticationHeaders, refusal: Refusal): boolean {
    return refusal.tls === this.#connection.tls && JSON.stringify(headers) === JSON.stringify(refusal.headers);
  }
}

/** What a 401 did not accept. */
interface Refusal {
  readonly error: unknown;
  readonly headers: AuthenticationHeaders;
  readonly tls: TlsOptions;
}

function eitherOf(one: AbortSignal | undefined, other: AbortSignal | undefined): AbortSignal | undefined {
  return one === undefined || other === undefined ? (one ?? other) : AbortSignal.any([one, other]);
}

const nameOf = (request: HttpRequest): string => `${request.method} ${request.path}`;

/** A credential plugin may take for ever: the promise's value, or the signal's reason if that or the time comes first. */
async function inTime<T>(promise: Promise<T>, signal: AbortSignal | undefined, timeoutMs: number): Promise<T> {
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal?.reason);
  const timeout = setTimeout(
    () => reject(new DOMException(`no credentials within ${timeoutMs} ms`, 'TimeoutError')),
    timeoutMs,
  );
  signal?.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([promise, ended]);
  } finally {
    clearTimeout(timeout);
    signal?.removeEventListener('abort', abort);
  }
}
