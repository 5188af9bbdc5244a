import type { ProxiedRequest, RequestFilter } from './proxied-request.ts';

/** What goes wrong between a client and the API server. */
export type Fault =
  /** The API server, or something before it, refuses: the request never gets there. */
  | {
      readonly type: 'answer';
      readonly status: number;
      /** The `reason` of the Status that is answered; `Expired`, `TooManyRequests` … */
      readonly reason: string;
      /** Sent as the header Retry-After. */
      readonly retryAfterSeconds?: number;
    }
  /** The request is carried out and answered, and the answer is lost: the connection is reset in its place. */
  | { readonly type: 'lost-reply' }
  /**
   * The answer breaks off in the middle of a line, or of a page: by a reset of the connection, or with a body that ends
   * as if it were whole. A watch under way is struck at its next bytes, and one that is idle is reset at once.
   */
  | {
      readonly type: 'cut';
      readonly how: 'reset' | 'end';
      /** What the answer has sent by then at the least, in bytes: an answer that is shorter stays whole. Default 0. */
      readonly afterBytes?: number;
    }
  /** An ERROR event ends the watch: 410, `Expired` when the server has forgotten the watch's resourceVersion. */
  | { readonly type: 'error-event'; readonly status: number; readonly reason: string }
  /** Nothing comes any more, and nobody says so: a connection whose other end is gone. It stays so for good. */
  | { readonly type: 'silence' }
  /** The answer is read from the API server, and passed on, so slowly; at full speed again once the fault is off. */
  | { readonly type: 'slow'; readonly bytesPerSecond: number };

/** Which requests a fault strikes. */
export interface FaultTarget {
  /** Default: every request. */
  readonly on?: RequestFilter;
  /** Of the requests that fit, each second, third … Default 1: all. */
  readonly every?: number;
  /** How often at the most. Default: no limit. */
  readonly times?: number;
}

/** A fault that is switched on, and how often it has happened. */
export class InjectedFault {
  readonly fault: Fault;
  readonly #on: RequestFilter;
  readonly #every: number;
  readonly #times: number;
  readonly #ended = new AbortController();
  #fitting = 0;
  #count = 0;

  constructor(fault: Fault, target: FaultTarget) {
    this.fault = fault;
    this.#on = target.on ?? (() => true);
    this.#every = target.every ?? 1;
    this.#times = target.times ?? Number.POSITIVE_INFINITY;
  }

  /** How many requests it has struck: a test asserts that it is not 0, or it has tested nothing. */
  get count(): number {
    return this.#count;
  }

  /** Ends the fault. What it has done already stays done. */
  off(): void {
    this.#ended.abort();
  }

  /** Aborted once the fault is off. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Whether a request is next to be struck. Called once a request, which it counts. */
  isDue(request: ProxiedRequest): boolean {
    if (this.#ended.signal.aborted || this.#count >= this.#times || !this.#on(request)) return false;
    this.#fitting += 1;
    return this.#fitting % this.#every === 0;
  }

  /** Counts one that happens now; false if it must not, for it has happened often enough. */
  struck(): boolean {
    if (this.#count >= this.#times) return false;
    this.#count += 1;
    return true;
  }
}
