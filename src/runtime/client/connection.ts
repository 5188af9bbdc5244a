/** The headers that prove who sends a request, and as whom it acts. A list is sent as one header for each value. */
export type AuthenticationHeaders = Readonly<Record<string, string | readonly string[]>>;

/** How the API server is reached and how a request proves who sends it. */
export interface Connection {
  /** Scheme, host and port, with a path where the API server stands behind one. */
  readonly server: URL;
  /** May change while it is used (certificates are renewed): another object means new connections. */
  readonly tls: TlsOptions;
  /** The HTTP proxy through which the server is reached, with its user and password if it asks for them. */
  readonly proxy?: URL;
  /**
   * The headers that authenticate a request. Called for each request, so that a rotated token is used without a
   * restart; implementations cache, and answer without a promise where they can.
   */
  authentication(): AuthenticationHeaders | Promise<AuthenticationHeaders>;
  /**
   * Told that the server did not take these headers, or the client certificate (401): the next call of
   * `authentication` should not answer from a cache. Absent where nothing can be renewed.
   */
  unauthorized?(refused: AuthenticationHeaders): void;
}

/** What TLS needs beyond the server's name; absent members mean Node's defaults. */
export interface TlsOptions {
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  readonly servername?: string;
  readonly rejectUnauthorized?: boolean;
}

/** No way to the API server could be found or read. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
}
