/** How the API server is reached and how a request proves who sends it. */
export interface Connection {
  /** Scheme, host and port, with a path where the API server stands behind one. */
  readonly server: URL;
  readonly tls: TlsOptions;
  /**
   * The headers that authenticate a request. Called for each request, so that a rotated token is used without a
   * restart; implementations cache.
   */
  authentication(): Promise<Readonly<Record<string, string>>>;
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
