import type { Dispatcher } from 'undici';
import type { Gate } from './gate.ts';
import { NoResponseError } from './no-response-error.ts';
import { parseResponse } from './parse-response.ts';
import type { Cancellable, SharedAbortListeners } from './shared-abort-listeners.ts';

/** Called for each request and each retry. `code` is the HTTP status, or `<error>` without a complete response. */
export type RequestObserver = (method: string, code: string) => void;

/** A response is larger than its request allows. The rest of it was not read. */
export class ResponseTooLargeError extends Error {
  override readonly name = 'ResponseTooLargeError';

  /** @param request `GET /api/v1/pods` */
  constructor(request: string, maxBytes: number) {
    super(`${request}: the response has more than ${maxBytes} bytes`);
  }
}

/** What an {@link Exchange} needs of a request besides undici's options. */
interface ExchangeOptions {
  readonly signal?: AbortSignal | undefined;
  readonly gate?: Gate | undefined;
  /** The most bytes of the response's body. Default: no limit. */
  readonly maxBytes?: number | undefined;
}

/**
 * One request in flight and its response. It collects the chunks of the body itself, because undici's `request` creates
 * a stream for each body, which costs too much for small responses.
 */
export class Exchange implements Dispatcher.DispatchHandler, Cancellable {
  readonly #name: string;
  readonly #options: Dispatcher.DispatchOptions;
  readonly #signal: AbortSignal | undefined;
  readonly #gate: Gate | undefined;
  readonly #maxBytes: number;
  readonly #abortListeners: SharedAbortListeners;
  readonly #observe: RequestObserver;
  readonly #resolve: (response: unknown) => void;
  readonly #reject: (error: unknown) => void;
  readonly #response: Promise<unknown>;
  #controller: Dispatcher.DispatchController | undefined;
  #code = 0;
  #retryAfter: string | undefined;
  #body: Buffer | undefined;
  #furtherBody: Buffer[] | undefined;
  #bytes = 0;
  #settled = false;
  #cancelReason: Error | undefined;

  /** @param name `GET /api/v1/pods`, for error messages; the path in the options includes the query. */
  constructor(
    name: string,
    options: Dispatcher.DispatchOptions,
    { signal, gate, maxBytes = Number.POSITIVE_INFINITY }: ExchangeOptions,
    abortListeners: SharedAbortListeners,
    observe: RequestObserver,
  ) {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#name = name;
    this.#options = options;
    this.#signal = signal;
    this.#gate = gate;
    this.#maxBytes = maxBytes;
    this.#abortListeners = abortListeners;
    this.#observe = observe;
    this.#response = promise;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /**
   * Sends the request once and returns the parsed body of the response.
   *
   * @throws ApiError; NoResponseError; ResponseTooLargeError; the signal's reason; the gate's error.
   */
  send(dispatcher: Dispatcher): Promise<unknown> {
    if (this.#signal !== undefined) this.#abortListeners.add(this.#signal, this);
    if (this.#gate !== undefined && !this.#settled) this.#abortListeners.add(this.#gate.signal, this);
    if (!this.#settled) dispatcher.dispatch(this.#options, this);
    return this.#response;
  }

  cancel(reason: Error): void {
    if (!this.#settle()) return;
    this.#cancelReason = reason;
    this.#observe(this.#options.method, '<error>');
    this.#reject(reason);
    // A request that waits for a connection has no controller yet; onRequestStart drops it.
    this.#controller?.abort(reason);
  }

  /**
   * Undici calls this immediately before it writes the first byte to the socket. If this throws, undici drops the
   * request and keeps the connection (lib/dispatcher/client-h1.js, writeH1). An abort would destroy the connection.
   */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#cancelReason === undefined && this.#gate !== undefined) this.#passGate(this.#gate);
    if (this.#cancelReason !== undefined) throw this.#cancelReason;
    this.#controller = controller;
  }

  onResponseStart(
    _: Dispatcher.DispatchController,
    code: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    if (code < 200) return;
    this.#code = code;
    if (code < 400) return;
    const retryAfter = headers['retry-after'];
    if (typeof retryAfter === 'string') this.#retryAfter = retryAfter;
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#maxBytes) this.cancel(new ResponseTooLargeError(this.#name, this.#maxBytes));
    else if (this.#body === undefined) this.#body = chunk;
    else if (this.#furtherBody === undefined) this.#furtherBody = [this.#body, chunk];
    else this.#furtherBody.push(chunk);
  }

  onResponseEnd(): void {
    if (!this.#settle()) return;
    this.#observe(this.#options.method, String(this.#code));
    const body = this.#furtherBody === undefined ? this.#body : Buffer.concat(this.#furtherBody);
    try {
      this.#resolve(parseResponse(this.#name, this.#code, body?.toString('utf8') ?? '', this.#retryAfter));
    } catch (error) {
      this.#reject(error);
    }
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    if (!this.#settle()) return;
    this.#observe(this.#options.method, '<error>');
    // Undici calls onRequestStart, which sets the controller, immediately before it writes the first byte.
    const wasSent = this.#controller !== undefined;
    this.#reject(new NoResponseError(this.#name, error, wasSent));
  }

  #passGate(gate: Gate): void {
    try {
      gate.pass();
    } catch (error) {
      this.cancel(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Returns true for the first call only: the first outcome counts, and undici's later callbacks are ignored. */
  #settle(): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    if (this.#signal !== undefined) this.#abortListeners.delete(this.#signal, this);
    if (this.#gate !== undefined) this.#abortListeners.delete(this.#gate.signal, this);
    return true;
  }
}
