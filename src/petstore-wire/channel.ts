import type { Http2Session } from 'node:http2';
import {
  Code,
  ConnectError,
  type Interceptor,
  type StreamResponse,
  type Transport,
  type UnaryResponse,
} from '@connectrpc/connect';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';
import { PetStore } from './generated/petstore_pb.js';

/** How a pet store is reached. */
export interface ChannelOptions {
  /** `host:port`. */
  readonly address: string;
  /**
   * Absent: plain text. With `ca`, in PEM, the store's certificate has to be signed by that one, and not by a public one; it is
   * got for each connection, so that it may change.
   */
  readonly tls?: { readonly ca?: string } | undefined;
  /**
   * How long an answer may take, in milliseconds, unless a call says otherwise; and whatever it says, how long each next pet of
   * a search.
   */
  readonly timeoutMs: number;
  readonly interceptors?: readonly Interceptor[];
  /** Called where a call leaves, when its connection is there. The call fails with what it throws. Must not wait. */
  readonly beforeCall?: () => void;
}

/** The client's end of the way to a pet store: one connection, made when it is first needed, and made again when it broke. */
export interface PetStoreChannel {
  readonly transport: Transport;
  /** The connection of the last request, by identity, while it is open. The next request may open another one. */
  connection(): object | undefined;
  /** Ends the connection and what is under way on it. */
  close(): void;
}

/**
 * On a connection that is idle the system asks for a sign of life after so long, in milliseconds: that keeps it in the tables of
 * gateways on the way, and finds out that it is dead within half a minute.
 */
const keepAliveInitialDelay = 15_000;

/** Opens nothing yet. */
export function openChannel(options: ChannelOptions): PetStoreChannel {
  const { address, tls, timeoutMs, interceptors = [], beforeCall = () => {} } = options;
  const baseUrl = `${tls === undefined ? 'http' : 'https'}://${address}`;
  // Without its pings: one that is due on a session that was destroyed while it went away is thrown at nobody, and ends the
  // process (conn.ping in commonPing of its http2-session-manager, after a GOAWAY). TCP has its own, and Node takes its options.
  const sessionOptions = {
    keepAlive: true,
    keepAliveInitialDelay,
    get ca() {
      return tls?.ca;
    },
  };
  const sessionManager = new CheckedSessionManager(baseUrl, undefined, sessionOptions);
  sessionManager.beforeCall = beforeCall;
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager,
    defaultTimeoutMs: timeoutMs,
    interceptors: [...interceptors, leavingTheDead(timeoutMs, () => sessionManager.abort())],
  });
  return { transport, connection: () => sessionManager.connection, close: () => sessionManager.abort() };
}

/** Checks each call as it is sent, and tells on which connection the last one went. */
class CheckedSessionManager extends Http2SessionManager {
  /** See {@link ChannelOptions.beforeCall}. */
  beforeCall: () => void = () => {};
  #last: Http2Session | undefined;

  get connection(): Http2Session | undefined {
    return this.#last?.closed || this.#last?.destroyed ? undefined : this.#last;
  }

  override async request(...request: Parameters<Http2SessionManager['request']>) {
    // A connection may take seconds to be made, and what allowed the call may be over by then.
    if ((await this.connect()) === 'error') throw this.error() ?? new Error('the connection broke');
    this.beforeCall();
    // With a connection this waits for nothing more than its own promises.
    const stream = await super.request(...request);
    this.#last = stream.session;
    return stream;
  }
}

/**
 * Gives up searches on which nothing comes for too long, and leaves connections that are dead. When something comes back on a
 * connection, it lives: a call that waits in vain after that was only slow.
 */
function leavingTheDead(idleMs: number, leave: () => void): Interceptor {
  let heardAtMs = Number.NEGATIVE_INFINITY;
  const judge = (error: unknown, waitingSinceMs: number): unknown => {
    if (ConnectError.from(error).code === Code.DeadlineExceeded && heardAtMs <= waitingSinceMs) leave();
    return error;
  };
  return (next) => async (request) => {
    const begunAtMs = performance.now();
    // Health may be watched for as long as nothing happens.
    if (!request.stream || request.service.typeName !== PetStore.typeName) return answered(next(request), begunAtMs);
    const idle = new IdleLimit(idleMs);
    const signal = AbortSignal.any([request.signal, idle.signal]);
    return answered(next({ ...request, signal }), begunAtMs, idle);
  };

  async function answered<T extends UnaryResponse | StreamResponse>(
    answer: Promise<T>,
    begunAtMs: number,
    idle?: IdleLimit,
  ): Promise<T> {
    try {
      const response = await answer;
      heardAtMs = performance.now();
      if (!response.stream) return response;
      return { ...response, message: heard(response.message, begunAtMs, idle) };
    } catch (error) {
      idle?.stop();
      throw judge(error, begunAtMs);
    }
  }

  async function* heard<T>(messages: AsyncIterable<T>, begunAtMs: number, idle?: IdleLimit): AsyncIterable<T> {
    try {
      for await (const message of messages) {
        heardAtMs = performance.now();
        // The time that the reader takes does not count.
        idle?.stop();
        yield message;
        idle?.start();
      }
    } catch (error) {
      throw judge(error, idle?.signal.aborted ? idle.startedAtMs : begunAtMs);
    } finally {
      idle?.stop();
    }
  }
}

/** A time after which a wait is given up: it begins with each {@link start}, and first with the limit itself. */
class IdleLimit {
  readonly #ms: number;
  readonly #over = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #startedAtMs = 0;

  constructor(ms: number) {
    this.#ms = ms;
    this.start();
  }

  /** Aborted when the time is over. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** By `performance.now()`. */
  get startedAtMs(): number {
    return this.#startedAtMs;
  }

  start(): void {
    this.#startedAtMs = performance.now();
    this.#timer = setTimeout(() => {
      this.#over.abort(new ConnectError(`nothing has come for ${this.#ms} ms`, Code.DeadlineExceeded));
    }, this.#ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
