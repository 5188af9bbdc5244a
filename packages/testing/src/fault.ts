import type { ProxiedRequest, RequestFilter } from './proxied-request.ts';

/** A fault between a client and the API server. */
export type Fault =
  /** The proxy responds with an error and does not forward the request. */
  | {
      readonly type: 'error-response';
      readonly status: number;
      /** The `reason` of the Status in the response: `Expired`, `TooManyRequests` … */
      readonly reason: string;
      /** The value of the Retry-After header. */
      readonly retryAfterSeconds?: number;
    }
  /**
   * The proxy forwards the request when `until` has resolved. A test may use `until` to change the object that the
   * request is about. If `until` rejects, the connection ends without a response.
   */
  | { readonly type: 'delayed'; readonly until: (request: ProxiedRequest) => Promise<unknown> }
  /** A list returns the objects as of an earlier version, until the API server has compacted it. */
  | { readonly type: 'as-of'; readonly resourceVersion: string }
  /** The API server processes the request and responds, but the proxy resets the connection instead of the response. */
  | { readonly type: 'lost-response' }
  /**
   * Simulates the end of the client's process: the proxy closes every connection, and forwards nothing more. The API
   * server still processes a write that the client has sent completely. `at` says when this happens. `unsent`: a
   * request arrives and is not forwarded. `reply-lost`: the API server has responded and the response is lost.
   * `replied`: the client has the response. `late`: the request was on its way, and the API server receives it when the
   * fault is off. Permanent.
   */
  | { readonly type: 'crash'; readonly at: 'unsent' | 'reply-lost' | 'replied' | 'late' }
  /**
   * The response breaks off in the middle of a line or a page. `reset` resets the connection; `end` ends the body as if
   * it were complete. An open watch is cut at its next bytes; with `reset`, an idle watch is reset at once.
   */
  | {
      readonly type: 'cut';
      readonly how: 'reset' | 'end';
      /** Cut the response only after this many bytes; a shorter response stays complete. Default 0. */
      readonly afterBytes?: number;
    }
  /** An ERROR event ends the watch, for example 410 `Expired` for an expired resourceVersion. */
  | { readonly type: 'error-event'; readonly status: number; readonly reason: string }
  /** The response delivers nothing more but stays open, as if the other end of the connection were gone. Permanent. */
  | { readonly type: 'silence' }
  /**
   * A watch delivers nothing until the fault is off, as if the API server's cache lagged. Then it delivers the held
   * events. With `expires` it ends with 410 `Expired` instead, so the client relists and never sees what happened in
   * between.
   */
  | { readonly type: 'hold'; readonly expires: boolean }
  /** The response is read and forwarded at this rate, and at full speed again when the fault is off. */
  | { readonly type: 'slow'; readonly bytesPerSecond: number };

/** Selects the requests that a fault affects. */
export interface FaultTarget {
  /** Default: every request. */
  readonly on?: RequestFilter;
  /** Affects only every n-th matching request. Default 1: all. */
  readonly every?: number;
  /** The maximum number of affected requests. Default: no limit. */
  readonly times?: number;
}

/** An active fault, with the number of affected requests. */
export class InjectedFault {
  readonly fault: Fault;
  readonly #on: RequestFilter;
  readonly #every: number;
  readonly #times: number;
  readonly #ended = new AbortController();
  #matchCount = 0;
  #count = 0;

  constructor(fault: Fault, target: FaultTarget) {
    this.fault = fault;
    this.#on = target.on ?? (() => true);
    this.#every = target.every ?? 1;
    this.#times = target.times ?? Number.POSITIVE_INFINITY;
  }

  /** The number of affected requests. Assert that it is not 0: otherwise the test has tested nothing. */
  get count(): number {
    return this.#count;
  }

  /** Ends the fault for future requests. Its previous effects remain. */
  off(): void {
    this.#ended.abort();
  }

  /** Aborts when the fault is off. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /**
   * True if the fault should affect this request. Call it once per request, because it counts the matching requests.
   */
  isDue(request: ProxiedRequest): boolean {
    if (this.#ended.signal.aborted || this.#count >= this.#times || !this.#on(request)) return false;
    this.#matchCount += 1;
    return this.#matchCount % this.#every === 0;
  }

  /** Counts an affected request and returns true, or returns false if the limit is reached. */
  tryCount(): boolean {
    if (this.#count >= this.#times) return false;
    this.#count += 1;
    return true;
  }
}
