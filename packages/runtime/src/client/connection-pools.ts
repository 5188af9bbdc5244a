import { type Dispatcher, Pool, ProxyAgent } from 'undici';
import type { Connection, TlsOptions } from './connection.ts';

const connectTimeoutMs = 10_000;

/** TCP keep-alive probes an idle connection after this time, and closes it after ten lost probes, one second apart. */
const keepAliveMs = 30_000;

/**
 * The keep-alive connections to the API server. Requests and watches have separate pools, because each watch occupies a
 * connection for minutes.
 */
export class ConnectionPools {
  readonly #connection: Connection;
  readonly #connections: number;
  /** Replaced pools, which may still have requests in flight. */
  readonly #retired = new Set<Dispatcher>();
  #tls: TlsOptions;
  #requests: Dispatcher;
  #watches: Dispatcher;

  /** @param connections the maximum number of requests in flight, not counting watches. */
  constructor(connection: Connection, connections: number) {
    this.#connection = connection;
    this.#connections = connections;
    this.#tls = connection.tls;
    this.#requests = this.#openRequests();
    this.#watches = this.#openWatches();
  }

  get requests(): Dispatcher {
    this.#renewIfTlsChanged();
    return this.#requests;
  }

  get watches(): Dispatcher {
    this.#renewIfTlsChanged();
    return this.#watches;
  }

  /**
   * Replaces the pool, so that later requests open new connections. Does nothing if the pool was already replaced. Call
   * it after a request of the pool had no response in time: a network that silently dropped one connection has also
   * dropped the idle ones. Requests in flight, and requests that wait for an old connection, stay with the old pool.
   */
  replace(pool: Dispatcher): void {
    if (pool === this.#requests) this.#requests = this.#openRequests();
    else if (pool === this.#watches) this.#watches = this.#openWatches();
    else return;
    this.#retire(pool);
  }

  /** Closes every connection at once; requests in flight fail. */
  async close(): Promise<void> {
    await Promise.all([this.#requests, this.#watches, ...this.#retired].map((pool) => pool.destroy()));
  }

  /** A new certificate needs new connections. An old connection closes when its last request ends. */
  #renewIfTlsChanged(): void {
    if (this.#tls === this.#connection.tls) return;
    this.#tls = this.#connection.tls;
    this.replace(this.#requests);
    this.replace(this.#watches);
  }

  #retire(pool: Dispatcher): void {
    this.#retired.add(pool);
    const forget = () => this.#retired.delete(pool);
    pool.close().then(forget, forget);
  }

  #openRequests(): Dispatcher {
    return this.#open({ connections: this.#connections, keepAliveTimeout: 60_000 });
  }

  #openWatches(): Dispatcher {
    return this.#open({ headersTimeout: 30_000, bodyTimeout: 0 });
  }

  #open(options: Pool.Options): Dispatcher {
    const { server, proxy, openPool } = this.#connection;
    if (openPool !== undefined) return openPool();
    // HTTP/1.1, because HTTP/2 multiplexes requests and `connections` would no longer limit the requests in flight.
    const shared = { ...options, allowH2: false };
    const tcp = { timeout: connectTimeoutMs, keepAlive: true, keepAliveInitialDelay: keepAliveMs };
    const tls = { ...this.#tls, ...tcp };
    if (proxy === undefined) return new Pool(server.origin, { ...shared, connect: tls });
    return new ProxyAgent({
      ...shared,
      uri: proxy.href,
      requestTls: tls,
      proxyTls: tcp,
      // Tunnel plain HTTP too, so that the proxy does not see the requests.
      proxyTunnel: true,
      // The pool to the proxy itself. A proxy responds to CONNECT only when it has reached the server.
      clientFactory: (origin, proxyOptions) =>
        new Pool(origin, { ...proxyOptions, allowH2: false, headersTimeout: connectTimeoutMs }),
    });
  }
}
