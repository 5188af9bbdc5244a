import { once } from 'node:events';
import {
  constants,
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type Http2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { Code, ConnectError, createConnectRouter, createContextValues } from '@connectrpc/connect';
import { compressionBrotli, compressionGzip } from '@connectrpc/connect-node';
import type { Logger } from '@echoperator/runtime';
import { Health } from '../wire/generated/grpc/health/v1/health_pb.js';
import { ServerReflection } from '../wire/generated/grpc/reflection/v1/reflection_pb.js';
import { PetStore } from '../wire/generated/petstore_pb.js';
import { addressOf, ClientLimits, maxMessageBytes, maxStreams } from './client-limits.ts';
import { HealthState } from './health.ts';
import { observation } from './observation.ts';
import { PetDatabase } from './pet-database.ts';
import { callClient, petService } from './pet-service.ts';
import { PetStoreMetrics } from './pet-store-metrics.ts';
import { reflectionService } from './reflection.ts';
import { requestListener } from './request-listener.ts';
import { Sampler } from './sampler.ts';
import type { SearchClient } from './search-places.ts';

/** PEM. `ca`: the authority that must have signed the certificates of clients. Absent: clients need no certificate. */
interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  readonly ca?: string | undefined;
}

/** Options of {@link PetStoreServer}. */
export interface PetStoreServerOptions {
  /** Default: all addresses of this host, IPv6 and IPv4, or IPv4 alone where the system has no IPv6. */
  readonly host?: string | undefined;
  /** 0: a free port of the system's choice. */
  readonly port: number;
  /** The database file. */
  readonly databasePath: string;
  /** How long request ids are remembered, in milliseconds. */
  readonly requestsKeptMs: number;
  /** Reads the files, at the start and for each connection. Absent: plain text. */
  readonly tls?: (() => TlsFiles) | undefined;
  /** See {@link petService}. Default 300,000. */
  readonly searchTimeoutMs?: number;
  /** How long a client may take to send a request, in milliseconds. Default 30,000. */
  readonly bodyTimeoutMs?: number;
  readonly log: Logger;
}

/** Node's other limits, including the one for stream resets, stay at their defaults. */
const http2Options = { settings: { maxConcurrentStreams: maxStreams } };

/** How long an aborted request may take to end. */
const abortTimeoutMs = 1000;

const services = [PetStore, Health, ServerReflection] as const;

/** The pet store: its database and the gRPC services that use it. */
export class PetStoreServer {
  readonly port: number;
  readonly metrics: PetStoreMetrics;
  readonly #server: Http2Server | Http2SecureServer;
  readonly #connections: Connections;
  readonly #database: PetDatabase;
  readonly #health: HealthState;
  readonly #shutdown: AbortController;

  private constructor(parts: {
    readonly server: Http2Server | Http2SecureServer;
    readonly connections: Connections;
    readonly database: PetDatabase;
    readonly health: HealthState;
    readonly metrics: PetStoreMetrics;
    readonly shutdown: AbortController;
  }) {
    this.port = (parts.server.address() as AddressInfo).port;
    this.metrics = parts.metrics;
    this.#server = parts.server;
    this.#connections = parts.connections;
    this.#database = parts.database;
    this.#health = parts.health;
    this.#shutdown = parts.shutdown;
  }

  /**
   * Opens the database and listens.
   *
   * @throws DatabaseError if the file cannot be used; the system's error if the port is taken; what `tls` throws.
   */
  static async start(options: PetStoreServerOptions): Promise<PetStoreServer> {
    const { databasePath, requestsKeptMs, tls, searchTimeoutMs = 300_000, bodyTimeoutMs = 30_000, log } = options;
    const database = new PetDatabase({ path: databasePath, requestsKeptMs });
    try {
      const sampler = new Sampler(database);
      const metrics = new PetStoreMetrics(database);
      const health = new HealthState(services.map(({ typeName }) => typeName));
      const shutdown = new AbortController();
      const { handlers } = createConnectRouter({
        connect: false,
        grpcWeb: false,
        acceptCompression: [compressionGzip, compressionBrotli],
        readMaxBytes: maxMessageBytes,
        binaryOptions: { readUnknownFields: false },
        interceptors: [observation({ metrics, sampler, log })],
        shutdownSignal: shutdown.signal,
      })
        .service(PetStore, petService({ database, sampler, requestsKeptMs, searchTimeoutMs }))
        .service(Health, health.service())
        .service(ServerReflection, reflectionService(services));
      const server = tls === undefined ? createServer(http2Options) : secureServer(tls, log);
      const connections = trackConnections(server);
      const limits = new ClientLimits(server);
      const listener = requestListener({
        handlers,
        contextValues: (stream) => createContextValues().set(callClient, clientOf(stream)),
        nextPart: (stream, part, isFirst) => limits.nextPart(stream, part, isFirst),
        bodyTimeoutMs,
        requestTimeoutMs: searchTimeoutMs + abortTimeoutMs,
        log,
      });
      server.on('request', listener);
      server.listen({ port: options.port, host: options.host });
      await once(server, 'listening');
      return new PetStoreServer({ server, connections, database, health, metrics, shutdown });
    } catch (error) {
      database[Symbol.dispose]();
      throw error;
    }
  }

  /** Whether the server is ready: true until {@link stop}. */
  get isServing(): boolean {
    return this.#health.isServing;
  }

  /**
   * Accepts no more requests, waits for the requests in flight, and closes the database.
   *
   * @param graceMs how long requests in flight may take, in milliseconds. After that they are aborted.
   */
  async stop(graceMs: number): Promise<void> {
    this.#health.stop();
    const closed = once(this.#server, 'close');
    this.#server.close();
    // This sends GOAWAY, so that clients send their next request on another connection.
    for (const session of this.#connections.sessions) session.close();
    const grace = setTimeout(() => {
      this.#shutdown.abort(new ConnectError('the pet store is stopping', Code.Unavailable));
    }, graceMs);
    const destruction = setTimeout(() => {
      for (const socket of this.#connections.sockets) socket.destroy();
    }, graceMs + abortTimeoutMs);
    await closed;
    clearTimeout(grace);
    clearTimeout(destruction);
    this.#database[Symbol.dispose]();
  }
}

/** The client that sent a request. */
const clientOf = (stream: ServerHttp2Stream): SearchClient => ({
  name: addressOf(stream.session?.socket),
  cancelSearch: () => stream.close(constants.NGHTTP2_CANCEL),
});

/** Reads the files for each connection, so that a renewed certificate needs no restart. */
function secureServer(readFiles: () => TlsFiles, log: Logger): Http2SecureServer {
  const read = (): TlsFiles => {
    const files = readFiles();
    // With an empty CA, OpenSSL would trust the public authorities.
    if (files.ca?.trim() === '') throw new Error("the file of the clients' authority is empty");
    return files;
  };
  let current = read();
  const requestCert = current.ca !== undefined;
  const server = createSecureServer({ ...http2Options, ...current, requestCert, rejectUnauthorized: true });
  server.on('tlsClientError', (error, { remoteAddress }) => {
    log.info({ err: error, client: remoteAddress }, 'refused a connection: its TLS handshake failed');
  });
  // This runs before the server's own listener, which starts the handshake.
  server.prependListener('connection', () => {
    try {
      const { cert, key, ca } = read();
      if (cert === current.cert && key === current.key && ca === current.ca) return;
      server.setSecureContext({ cert, key, ca });
      current = { cert, key, ca };
      log.info({}, 'certificate reloaded');
    } catch (error) {
      log.warn({ err: error }, 'cannot reload the certificate: keeping the previous one');
    }
  });
  return server;
}

/** The open connections. A socket has no session before its TLS handshake. */
interface Connections {
  readonly sockets: ReadonlySet<Socket>;
  readonly sessions: ReadonlySet<Http2Session>;
}

function trackConnections(server: Http2Server | Http2SecureServer): Connections {
  const sockets = new Set<Socket>();
  const sessions = new Set<Http2Session>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.on('session', (session: Http2Session) => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session));
  });
  // A client that resets its connection is not an error of the pet store. Without a listener the event would end the
  // process.
  server.on('sessionError', () => {});
  return { sockets, sessions };
}
