import type { Interceptor, Transport } from '@connectrpc/connect';
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

/** A connection that was silent for so long is asked whether it is alive. */
const pingIntervalMs = 15_000;

/** One that does not answer for so long is given up. */
const pingTimeoutMs = 5000;

/** Opens nothing yet. */
export function openChannel({ address, tls, timeoutMs, interceptors = [] }: ChannelOptions): PetStoreChannel {
  const baseUrl = `${tls === undefined ? 'http' : 'https'}://${address}`;
  const sessionManager = new Http2SessionManager(
    baseUrl,
    { pingIntervalMs, pingTimeoutMs, pingIdleConnection: true },
    tls?.ca === undefined ? {} : { ca: tls.ca },
  );
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager,
    defaultTimeoutMs: timeoutMs,
    interceptors: [...interceptors],
  });
  return { transport, close: () => sessionManager.abort() };
}
