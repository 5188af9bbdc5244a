import { AsyncLocalStorage } from 'node:async_hooks';
import { constants, type Http2Session } from 'node:http2';
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

/** TLS of a connection, in PEM. The properties are read for each new connection, so that they may change. */
export interface ChannelTls {
  /** Replaces the public authorities. */
  readonly ca?: string | undefined;
  /** The client's certificate. */
  readonly cert?: string | undefined;
  /** The key of the client's certificate. */
  readonly key?: string | undefined;
}

/** How to connect to a pet store. */
export interface ChannelOptions {
  /** `host:port`. */
  readonly address: string;
  /** Absent: plain text. */
  readonly tls?: ChannelTls | undefined;
  /**
   * The default timeout of a call, in milliseconds. It also limits the wait for each further message of a search,
   * whatever the timeout of the call is.
   */
  readonly timeoutMs: number;
  readonly interceptors?: readonly Interceptor[];
  /**
   * Called synchronously before each request is sent, once its connection is open. If it throws, the call fails with
   * that error.
   */
  readonly beforeCall?: () => void;
}

/** The connection for calls that must use the same one. The first call sets it. */
export interface SharedConnection {
  connection?: object | undefined;
}

/** A client connection to a pet store. It is opened on first use and reopened after it breaks. */
export interface PetStoreChannel {
  readonly transport: Transport;
  /**
   * Identifies the connection that carried the last request, while it is open. The next request may use another one.
   */
  connection(): object | undefined;
  /**
   * Runs work whose calls must go to the same server. If a later call would use another connection than the first, it
   * fails with UNAVAILABLE, and the server does not receive its message.
   */
  onOneConnection<T>(shared: SharedConnection, work: () => Promise<T>): Promise<T>;
  /** Closes the connection and fails the calls in flight. */
  close(): void;
}

/**
 * The time after which TCP keep-alive starts on an idle connection, in milliseconds. Keep-alive prevents gateways from
 * forgetting the connection, and detects a dead peer within half a minute.
 */
const keepAliveInitialDelay = 15_000;

/** Creates the channel without connecting. */
export function openChannel(options: ChannelOptions): PetStoreChannel {
  const { address, tls, timeoutMs, interceptors = [], beforeCall = () => {} } = options;
  const baseUrl = `${tls === undefined ? 'http' : 'https'}://${address}`;
  // Connect's own HTTP/2 pings stay off. A ping on a session that was destroyed after a GOAWAY throws where nothing
  // catches the error, and ends the process (conn.ping in commonPing of its http2-session-manager). TCP keep-alive
  // serves the same purpose.
  const sessionOptions = {
    keepAlive: true,
    keepAliveInitialDelay,
    get ca() {
      return tls?.ca;
    },
    get cert() {
      return tls?.cert;
    },
    get key() {
      return tls?.key;
    },
  };
  const sessionManager = new CheckedSessionManager(baseUrl, undefined, sessionOptions);
  sessionManager.beforeCall = beforeCall;
  sessionManager.requestAuthority = new URL(baseUrl).host;
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager,
    defaultTimeoutMs: timeoutMs,
    interceptors: [...interceptors, abortDeadConnections(timeoutMs, () => sessionManager.abort())],
  });
  return {
    transport,
    connection: () => sessionManager.connection,
    onOneConnection: (shared, work) => sessionManager.shared.run(shared, work),
    close: () => sessionManager.abort(),
  };
}

/** Runs a check before each request is sent, and remembers the connection of the last request. */
class CheckedSessionManager extends Http2SessionManager {
  /** See {@link ChannelOptions.beforeCall}. */
  beforeCall: () => void = () => {};
  /** The `:authority` of each request. Node omits the brackets around an IPv6 address, and servers refuse that. */
  requestAuthority: string | undefined;
  /** Set while {@link PetStoreChannel.onOneConnection} runs. */
  readonly shared = new AsyncLocalStorage<SharedConnection>();
  #last: Http2Session | undefined;

  get connection(): Http2Session | undefined {
    return this.#last?.closed || this.#last?.destroyed ? undefined : this.#last;
  }

  override async request(...[method, path, headers, options]: Parameters<Http2SessionManager['request']>) {
    // Check after connecting, which may take seconds: an earlier permission may have ended.
    if ((await this.connect()) === 'error') throw this.error() ?? new Error('the connection broke');
    this.beforeCall();
    // The connection is open, so this call sends without waiting for I/O.
    const stream = await super.request(method, path, { ...headers, ':authority': this.requestAuthority }, options);
    this.#last = stream.session;
    const shared = this.shared.getStore();
    if (shared !== undefined) {
      shared.connection ??= stream.session;
      if (shared.connection !== stream.session) {
        // Only the headers were sent. The connection may break before the stream is closed.
        stream.on('error', () => {});
        stream.close(constants.NGHTTP2_CANCEL);
        throw new ConnectError('the connection has been replaced by another one', Code.Unavailable);
      }
    }
    return stream;
  }
}

/**
 * Fails a search that receives no message for `idleMs`, and aborts a connection that looks dead. A connection looks
 * dead if a call times out and no call has received anything since that call began to wait. Otherwise only that call
 * was slow.
 */
function abortDeadConnections(idleMs: number, abort: () => void): Interceptor {
  let lastReceivedAtMs = Number.NEGATIVE_INFINITY;
  const abortIfDead = (error: unknown, waitingSinceMs: number): void => {
    if (ConnectError.from(error).code === Code.DeadlineExceeded && lastReceivedAtMs <= waitingSinceMs) abort();
  };
  return (next) => async (request) => {
    const begunAtMs = performance.now();
    // A watch of Health may stay silent for any length of time.
    if (!request.stream || request.service.typeName !== PetStore.typeName)
      return observeResponse(next(request), begunAtMs);
    const idle = new IdleTimeout(idleMs);
    const signal = AbortSignal.any([request.signal, idle.signal]);
    return observeResponse(next({ ...request, signal }), begunAtMs, idle);
  };

  async function observeResponse<T extends UnaryResponse | StreamResponse>(
    pending: Promise<T>,
    begunAtMs: number,
    idle?: IdleTimeout,
  ): Promise<T> {
    try {
      const response = await pending;
      lastReceivedAtMs = performance.now();
      if (!response.stream) return response;
      return { ...response, message: observeMessages(response.message, begunAtMs, idle) };
    } catch (error) {
      idle?.stop();
      abortIfDead(error, begunAtMs);
      throw error;
    }
  }

  async function* observeMessages<T>(
    messages: AsyncIterable<T>,
    begunAtMs: number,
    idle?: IdleTimeout,
  ): AsyncIterable<T> {
    try {
      for await (const message of messages) {
        lastReceivedAtMs = performance.now();
        // The time that the reader takes does not count.
        idle?.stop();
        yield message;
        idle?.start();
      }
    } catch (error) {
      abortIfDead(error, idle?.signal.aborted ? idle.startedAtMs : begunAtMs);
      throw error;
    } finally {
      idle?.stop();
    }
  }
}

/** A timeout that starts when it is created and restarts with each {@link start}. */
class IdleTimeout {
  readonly #ms: number;
  readonly #expired = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #startedAtMs = 0;

  constructor(ms: number) {
    this.#ms = ms;
    this.start();
  }

  /** Aborted when the timeout expires. */
  get signal(): AbortSignal {
    return this.#expired.signal;
  }

  /** On the clock of `performance.now()`. */
  get startedAtMs(): number {
    return this.#startedAtMs;
  }

  start(): void {
    this.#startedAtMs = performance.now();
    this.#timer = setTimeout(() => {
      this.#expired.abort(new ConnectError(`no message for ${this.#ms} ms`, Code.DeadlineExceeded));
    }, this.#ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
