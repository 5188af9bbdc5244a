import { once } from 'node:events';
import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type Http2Session,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { Code, ConnectError } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { Health, PetStore, ServerReflection } from '../petstore-wire/index.ts';
import type { Logger } from '../runtime/index.ts';
import { HealthState } from './health.ts';
import { observation } from './observation.ts';
import { PetDatabase } from './pet-database.ts';
import { petService } from './pet-service.ts';
import { PetStoreMetrics } from './pet-store-metrics.ts';
import { reflectionService } from './reflection.ts';
import { Sampler } from './sampler.ts';
import { breakingOffSearches } from './search-limit.ts';

/** A certificate and its key. */
interface Pair {
  readonly cert: string;
  readonly key: string;
}

/** What a {@link PetStoreServer} is told. */
export interface PetStoreServerOptions {
  readonly host: string;
  /** 0: the system chooses. */
  readonly port: number;
  /** The file that holds the pets. */
  readonly databasePath: string;
  /** For how long request ids are remembered, in milliseconds. */
  readonly requestsKeptMs: number;
  /** Reads certificate and key, in PEM: at the start, and for each connection. Absent: plain text. */
  readonly tls?: (() => Pair) | undefined;
  /** See {@link petService}. Default 300,000. */
  readonly searchTimeoutMs?: number;
  readonly log: Logger;
}

/** One message, in bytes: what gRPC's own servers take. */
const maxMessageBytes = 4 * 1024 * 1024;

/** How long a request that was told to end may take to notice. */
const abortTimeoutMs = 1000;

const services = [PetStore, Health, ServerReflection] as const;

/** The pet store: its database, and the gRPC services before it. */
export class PetStoreServer {
  readonly port: number;
  readonly metrics: PetStoreMetrics;
  readonly #server: Http2Server | Http2SecureServer;
  readonly #sessions: ReadonlySet<Http2Session>;
  readonly #database: PetDatabase;
  readonly #health: HealthState;
  readonly #shutdown: AbortController;

  private constructor(parts: {
    readonly server: Http2Server | Http2SecureServer;
    readonly sessions: ReadonlySet<Http2Session>;
    readonly database: PetDatabase;
    readonly health: HealthState;
    readonly metrics: PetStoreMetrics;
    readonly shutdown: AbortController;
  }) {
    this.port = (parts.server.address() as AddressInfo).port;
    this.metrics = parts.metrics;
    this.#server = parts.server;
    this.#sessions = parts.sessions;
    this.#database = parts.database;
    this.#health = parts.health;
    this.#shutdown = parts.shutdown;
  }

  /**
   * Opens the database and listens.
   *
   * @throws DatabaseError where the file cannot be used; the system's error when the port is taken; what `tls` throws.
   */
  static async start(options: PetStoreServerOptions): Promise<PetStoreServer> {
    const { databasePath, requestsKeptMs, tls, searchTimeoutMs = 300_000, log } = options;
    const database = new PetDatabase({ path: databasePath, requestsKeptMs });
    try {
      const sampler = new Sampler(database);
      const metrics = new PetStoreMetrics(database);
      const health = new HealthState(services.map(({ typeName }) => typeName));
      const shutdown = new AbortController();
      const adapter = connectNodeAdapter({
        routes: (router) => {
          router.service(PetStore, petService({ database, sampler, requestsKeptMs, searchTimeoutMs }));
          router.service(Health, health.service());
          router.service(ServerReflection, reflectionService(services));
        },
        connect: false,
        grpcWeb: false,
        readMaxBytes: maxMessageBytes,
        interceptors: [observation({ metrics, sampler, log })],
        shutdownSignal: shutdown.signal,
      });
      const handler = breakingOffSearches(adapter, searchTimeoutMs + abortTimeoutMs);
      const server = tls === undefined ? createServer(handler) : secureServer(tls, handler, log);
      const sessions = sessionsOf(server);
      server.listen(options.port, options.host);
      await once(server, 'listening');
      return new PetStoreServer({ server, sessions, database, health, metrics, shutdown });
    } catch (error) {
      database[Symbol.dispose]();
      throw error;
    }
  }

  /** For a readiness probe. */
  get isServing(): boolean {
    return this.#health.isServing;
  }

  /**
   * Takes no more requests, brings those under way to their end, and closes the database.
   *
   * @param graceMs after so long those that are left are told to end, in milliseconds.
   */
  async stop(graceMs: number): Promise<void> {
    this.#health.stop();
    const closed = once(this.#server, 'close');
    this.#server.close();
    // Says GOAWAY: a client opens its next request elsewhere.
    for (const session of this.#sessions) session.close();
    const grace = setTimeout(() => {
      this.#shutdown.abort(new ConnectError('the pet store is stopping', Code.Unavailable));
    }, graceMs);
    const last = setTimeout(() => {
      for (const session of this.#sessions) session.destroy();
    }, graceMs + abortTimeoutMs);
    await closed;
    clearTimeout(grace);
    clearTimeout(last);
    this.#database[Symbol.dispose]();
  }
}

/** Each connection gets the certificate that is there then: one that is renewed needs no restart. */
function secureServer(
  read: () => Pair,
  handler: ReturnType<typeof connectNodeAdapter>,
  log: Logger,
): Http2SecureServer {
  let present = read();
  const server = createSecureServer({ ...present, allowHTTP1: false }, handler);
  // Before the server's own listener, which begins the handshake.
  server.prependListener('connection', () => {
    try {
      const { cert, key } = read();
      if (cert === present.cert && key === present.key) return;
      server.setSecureContext({ cert, key });
      present = { cert, key };
      log.info({}, 'the certificate was renewed');
    } catch (error) {
      log.warn({ err: error }, 'the certificate cannot be renewed: the one before stays');
    }
  });
  return server;
}

/** The connections that are open. */
function sessionsOf(server: Http2Server | Http2SecureServer): ReadonlySet<Http2Session> {
  const sessions = new Set<Http2Session>();
  server.on('session', (session: Http2Session) => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session));
  });
  // A client that breaks off is no error of ours; without a listener it would end the process.
  server.on('sessionError', () => {});
  return sessions;
}
