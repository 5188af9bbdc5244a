import type { Dispatcher } from 'undici';

/** The headers that authenticate a request and impersonate a user. A list becomes one header for each value. */
export type AuthenticationHeaders = Readonly<Record<string, string | readonly string[]>>;

/** The address of the API server and the credentials for it. */
export interface Connection {
  /** Scheme, host and port, and a path if the API server has a path prefix. */
  readonly server: URL;
  /** Changes when a certificate is renewed. A new object makes the transport open new connections. */
  readonly tls: TlsOptions;
  /** The URL of the HTTP proxy, with its user and password if it requires them. Default: no proxy. */
  readonly proxy?: URL;
  /**
   * Opens a pool of connections to the server, for example to a simulated one. Default: undici's pool of TCP
   * connections.
   */
  readonly openPool?: () => Dispatcher;
  /**
   * Every write over this connection is a dry run, whatever the caller asks for; see {@link dryRunConnection}. Default
   * false.
   */
  readonly isDryRunOnly?: boolean;
  /**
   * Returns the headers that authenticate a request. Called for each request, so that a rotated token needs no restart.
   * Implementations cache the headers and return a promise only if they must wait.
   */
  authentication(): AuthenticationHeaders | Promise<AuthenticationHeaders>;
  /**
   * Called when the server rejected these headers or the client certificate (401), so that the next call of
   * `authentication` bypasses the cache. Absent if the credentials cannot be renewed.
   */
  invalidate?(rejected: AuthenticationHeaders): void;
}

/** TLS options; Node's defaults apply to absent members. */
export interface TlsOptions {
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  readonly servername?: string;
  readonly rejectUnauthorized?: boolean;
}

/** The configuration of the connection (a kubeconfig, a service account, a proxy) is missing or invalid. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
}
