import type { Dispatcher } from 'undici';
import { parseAnswer } from './answer.ts';
import type { Cancellable, Cancellations } from './cancellations.ts';
import type { Gate } from './gate.ts';
import { NoAnswerError } from './no-answer-error.ts';

/** Told of each request, also of one sent again: the method and the code, `<error>` without an answer or cancelled, sent or not. */
export type RequestObserver = (method: string, code: string) => void;

/**
 * One request on its way and its answer. Undici's own `request` makes a stream of each body, with all that belongs to
 * one; here the pieces are put together and parsed, which is all that a small answer needs.
 */
export class Exchange implements Dispatcher.DispatchHandler, Cancellable {
  readonly #name: string;
  readonly #options: Dispatcher.DispatchOptions;
  readonly #signal: AbortSignal | undefined;
  readonly #gate: Gate | undefined;
  readonly #cancellations: Cancellations;
  readonly #observe: RequestObserver;
  readonly #resolve: (answer: unknown) => void;
  readonly #reject: (error: unknown) => void;
  readonly #answer: Promise<unknown>;
  #controller: Dispatcher.DispatchController | undefined;
  #code = 0;
  #retryAfter: string | undefined;
  #body: Buffer | undefined;
  #furtherBody: Buffer[] | undefined;
  #settled = false;
  /** Why, if it was. */
  #cancelledBy: Error | undefined;

  /** @param name `GET /api/v1/pods`, for errors: the path in the options has the query with it. */
  constructor(
    name: string,
    options: Dispatcher.DispatchOptions,
    { signal, gate }: { readonly signal?: AbortSignal | undefined; readonly gate?: Gate | undefined },
    cancellations: Cancellations,
    observe: RequestObserver,
  ) {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#name = name;
    this.#options = options;
    this.#signal = signal;
    this.#gate = gate;
    this.#cancellations = cancellations;
    this.#observe = observe;
    this.#answer = promise;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /**
   * Sends the request, once.
   *
   * @throws ApiError, NoAnswerError, the signal's reason, or why the gate is closed.
   */
  send(dispatcher: Dispatcher): Promise<unknown> {
    if (this.#signal !== undefined) this.#cancellations.add(this.#signal, this);
    if (this.#gate !== undefined && !this.#settled) this.#cancellations.add(this.#gate.signal, this);
    if (!this.#settled) dispatcher.dispatch(this.#options, this);
    return this.#answer;
  }

  cancel(reason: Error): void {
    if (!this.#settle()) return;
    this.#cancelledBy = reason;
    this.#observe(this.#options.method, '<error>');
    this.#reject(reason);
    // What still waits for a connection has no controller yet: onRequestStart drops it.
    this.#controller?.abort(reason);
  }

  /**
   * Undici calls this just before it writes the first byte to the socket. If it throws, undici drops the request and keeps
   * the connection (lib/dispatcher/client-h1.js, writeH1); an abort would destroy it.
   */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#cancelledBy === undefined && this.#gate !== undefined) this.#pass(this.#gate);
    if (this.#cancelledBy !== undefined) throw this.#cancelledBy;
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
    if (this.#body === undefined) this.#body = chunk;
    else if (this.#furtherBody === undefined) this.#furtherBody = [this.#body, chunk];
    else this.#furtherBody.push(chunk);
  }

  onResponseEnd(): void {
    if (!this.#settle()) return;
    this.#observe(this.#options.method, String(this.#code));
    const body = this.#furtherBody === undefined ? this.#body : Buffer.concat(this.#furtherBody);
    try {
      this.#resolve(parseAnswer(this.#name, this.#code, body?.toString('utf8') ?? '', this.#retryAfter));
    } catch (error) {
      this.#reject(error);
    }
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    if (!this.#settle()) return;
    this.#observe(this.#options.method, '<error>');
    // Undici says that a request starts just before it writes the first byte.
    this.#reject(new NoAnswerError(this.#name, error, this.#controller !== undefined));
  }

  #pass(gate: Gate): void {
    try {
      gate.pass();
    } catch (error) {
      this.cancel(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Whether this is how it ends: what comes after the end is nobody's any more. */
  #settle(): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    if (this.#signal !== undefined) this.#cancellations.delete(this.#signal, this);
    if (this.#gate !== undefined) this.#cancellations.delete(this.#gate.signal, this);
    return true;
  }
}
