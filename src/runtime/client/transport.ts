import type { Readable } from 'node:stream';
import { Pool } from 'undici';
import { ApiError, type Status } from './api-error.ts';
import type { Connection } from './connection.ts';

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
  /** Default: {@link TransportOptions.timeoutMs}. */
  readonly timeoutMs?: number;
}

/** Told of each answered request: the method and the status code, `<error>` where there was no answer. */
export type RequestObserver = (method: string, code: string) => void;

/** Options of a {@link Transport}. */
export interface TransportOptions {
  readonly userAgent: string;
  /** How many requests may be under way at once; more wait. Default 32. */
  readonly connections?: number;
  /** How long a request that is not a watch may take. Default 30,000. */
  readonly timeoutMs?: number;
  readonly observe?: RequestObserver;
}

/** A watch that has been silent for so long is dead: the server sends a bookmark each minute. */
const watchSilenceMs = 120_000;

/** HTTP to the API server over pooled keep-alive connections; watches have connections of their own. */
export class Transport {
  readonly #connection: Connection;
  readonly #requests: Pool;
  readonly #watches: Pool;
  readonly #userAgent: string;
  readonly #timeoutMs: number;
  readonly #observe: RequestObserver;
  readonly #basePath: string;

  constructor(connection: Connection, options: TransportOptions) {
    const { origin, pathname } = connection.server;
    const connect = { ...connection.tls, timeout: 10_000 };
    // HTTP/1.1, so that `connections` is what it says: HTTP/2 puts a burst of requests on one connection.
    const shared = { connect, allowH2: false };
    this.#connection = connection;
    this.#requests = new Pool(origin, { ...shared, connections: options.connections ?? 32, keepAliveTimeout: 60_000 });
    this.#watches = new Pool(origin, { ...shared, headersTimeout: 30_000, bodyTimeout: watchSilenceMs });
    this.#userAgent = options.userAgent;
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#observe = options.observe ?? (() => {});
    this.#basePath = pathname.replace(/\/$/, '');
  }

  /**
   * Sends a request and returns the answer's JSON.
   *
   * @throws ApiError for an answer of 400 and above, or for one that is not JSON; undici's errors where there was none;
   *   the signal's reason.
   */
  async request(request: HttpRequest): Promise<unknown> {
    const timeout = AbortSignal.timeout(request.timeoutMs ?? this.#timeoutMs);
    const signal = request.signal === undefined ? timeout : AbortSignal.any([request.signal, timeout]);
    const response = await this.#send(this.#requests, { ...request, signal });
    const text = await response.body.text();
    if (response.statusCode >= 400) throw apiError(request, response.statusCode, text);
    return parseAnswer(request, response.statusCode, text);
  }

  /**
   * Opens a watch; the body ends when the server closes it, fails when nothing came for two minutes.
   *
   * @throws as {@link Transport.request} does.
   */
  async stream(request: HttpRequest): Promise<Readable> {
    const response = await this.#send(this.#watches, request);
    if (response.statusCode >= 400) throw apiError(request, response.statusCode, await response.body.text());
    return response.body;
  }

  /** Closes every connection at once; requests under way fail. */
  async close(): Promise<void> {
    await Promise.all([this.#requests.destroy(), this.#watches.destroy()]);
  }

  async #send(
    pool: Pool,
    request: HttpRequest,
  ): Promise<{ statusCode: number; body: Readable & { text(): Promise<string> } }> {
    const { query = '' } = request;
    try {
      const response = await pool.request({
        method: request.method,
        path: `${this.#basePath}${request.path}${query === '' ? '' : `?${query}`}`,
        headers: {
          accept: request.accept ?? 'application/json',
          'user-agent': this.#userAgent,
          ...(request.body !== undefined && { 'content-type': request.contentType ?? 'application/json' }),
          ...(await unlessAborted(this.#connection.authentication(), request.signal)),
        },
        body: request.body === undefined ? null : JSON.stringify(request.body),
        ...(request.signal !== undefined && { signal: request.signal }),
      });
      this.#observe(request.method, String(response.statusCode));
      return response;
    } catch (error) {
      this.#observe(request.method, '<error>');
      throw error;
    }
  }
}

/** A credential plugin may take for ever: the promise's value, or the signal's reason if that comes first. */
async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** The API server answers in JSON: what does not is a proxy's log-in page, or a redirection. */
function parseAnswer(request: HttpRequest, code: number, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    const message = `the answer is not JSON: ${JSON.stringify(text.slice(0, 200))}`;
    throw new ApiError(`${request.method} ${request.path}`, code, { code, message });
  }
}

/** Proxies in between answer with HTML or nothing: then the text itself is the message. */
function apiError(request: HttpRequest, code: number, text: string): ApiError {
  return new ApiError(`${request.method} ${request.path}`, code, parseStatus(code, text));
}

function parseStatus(code: number, text: string): Status {
  try {
    const status: unknown = JSON.parse(text);
    if (typeof status === 'object' && status !== null && 'kind' in status && status.kind === 'Status') {
      return status as Status;
    }
  } catch {
    // Not JSON: the text is the message.
  }
  return { code, message: text.slice(0, 1000) };
}
