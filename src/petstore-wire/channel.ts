import { Code, ConnectError, type Interceptor, type Transport } from '@connectrpc/connect';
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node';

/** How a pet store is reached. */
export interface ChannelOptions {
  /** `host:port`. */
  readonly address: string;
  /** Absent: plain text. With `ca`, in PEM, the store's certificate has to be signed by that one, and not by a public one. */
  readonly tls?: { readonly ca?: string } | undefined;
  /** How long an answer may take, in milliseconds, unless a call says otherwise. */
  readonly timeoutMs: number;
  readonly interceptors?: readonly Interceptor[];
}

/** The client's end of the way to a pet store: one connection, made when it is first needed, and made again when it broke. */
export interface PetStoreChannel {
  readonly transport: Transport;
  /** Ends the connection and what is under way on it. */
  close(): void;
}

/** Opens nothing yet. */
export function openChannel({ address, tls, timeoutMs, interceptors = [] }: ChannelOptions): PetStoreChannel {
  const baseUrl = `${tls === undefined ? 'http' : 'https'}://${address}`;
  // Without its pings: one that is due on a session that was destroyed while it went away is thrown at nobody, and ends the
  // process (conn.ping in commonPing of its http2-session-manager, after a GOAWAY).
  const sessionManager = new Http2SessionManager(baseUrl, undefined, tls?.ca === undefined ? {} : { ca: tls.ca });
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager,
    defaultTimeoutMs: timeoutMs,
    interceptors: [...interceptors, leavingTheDead(() => sessionManager.abort())],
  });
  return { transport, close: () => sessionManager.abort() };
}

/** When something comes back on a connection, it lives: a call that ends without an answer after that was only slow. */
function leavingTheDead(leave: () => void): Interceptor {
  let heardAtMs = Number.NEGATIVE_INFINITY;
  const judge = (error: unknown, begunAtMs: number): unknown => {
    if (ConnectError.from(error).code === Code.DeadlineExceeded && heardAtMs < begunAtMs) leave();
    return error;
  };
  return (next) => async (request) => {
    const begunAtMs = performance.now();
    try {
      const response = await next(request);
      heardAtMs = performance.now();
      if (!response.stream) return response;
      return { ...response, message: heard(response.message, begunAtMs) };
    } catch (error) {
      throw judge(error, begunAtMs);
    }
  };

  async function* heard<T>(messages: AsyncIterable<T>, begunAtMs: number): AsyncIterable<T> {
    try {
      for await (const message of messages) {
        heardAtMs = performance.now();
        yield message;
      }
    } catch (error) {
      throw judge(error, begunAtMs);
    }
  }
}
