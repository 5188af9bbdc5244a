import { type Dispatcher, Pool, ProxyAgent } from 'undici';
import type { Connection, TlsOptions } from './connection.ts';

const connectTimeoutMs = 10_000;

/** A connection on which nothing comes is probed after this time, and is dead when ten probes, a second apart, are lost. */
const keepAliveMs = 30_000;

/**
 * The keep-alive connections to the API server: some for requests, and others for watches, each of which keeps one for
 * minutes.
 */
export class ConnectionPools {
  readonly #connection: Connection;
  readonly #connections: number;
  /** Renewed connections' predecessors, on which something may still be under way. */
  readonly #retired = new Set<Dispatcher>();
  #tls: TlsOptions;
  #requests: Dispatcher;
  #watches: Dispatcher;

  /** @param connections how many requests that are no watches may be under way at once. */
  constructor(connection: Connection, connections: number) {
    this.#connection = connection;
    this.#connections = connections;
    this.#tls = connection.tls;
    this.#requests = this.#openRequests();
    this.#watches = this.#openWatches();
  }

  get requests(): Dispatcher {
    this.#renew();
    return this.#requests;
  }

  get watches(): Dispatcher {
    this.#renew();
    return this.#watches;
  }

  /** Closes every connection at once; what is under way fails. */
  async close(): Promise<void> {
    await Promise.all([this.#requests, this.#watches, ...this.#retired].map((pool) => pool.destroy()));
  }

  /** With a new certificate come new connections; the old ones end as soon as nothing is under way on them. */
  #renew(): void {
    if (this.#tls === this.#connection.tls) return;
    this.#tls = this.#connection.tls;
    for (const pool of [this.#requests, this.#watches]) {
      this.#retired.add(pool);
      const forget = () => this.#retired.delete(pool);
      pool.close().then(forget, forget);
    }
    this.#requests = this.#openRequests();
    this.#watches = this.#openWatches();
  }

  #openRequests(): Dispatcher {
    return this.#open({ connections: this.#connections, keepAliveTimeout: 60_000 });
  }

  #openWatches(): Dispatcher {
    return this.#open({ headersTimeout: 30_000, bodyTimeout: 0 });
  }

  #open(options: Pool.Options): Dispatcher {
    const { server, proxy } = this.#connection;
    // HTTP/1.1, so that `connections` is what it says: HTTP/2 puts a burst of requests on one connection.
    const shared = { ...options, allowH2: false };
    const tcp = { timeout: connectTimeoutMs, keepAlive: true, keepAliveInitialDelay: keepAliveMs };
    const tls = { ...this.#tls, ...tcp };
    if (proxy === undefined) return new Pool(server.origin, { ...shared, connect: tls });
    return new ProxyAgent({
      ...shared,
      uri: proxy.href,
      requestTls: tls,
      proxyTls: tcp,
      // A tunnel for plain HTTP too: the proxy has no business with what is in it.
      proxyTunnel: true,
      // To the proxy itself: it answers a CONNECT when it has reached the server.
      clientFactory: (origin, proxyOptions) =>
        new Pool(origin, { ...proxyOptions, allowH2: false, headersTimeout: connectTimeoutMs }),
    });
  }
}
