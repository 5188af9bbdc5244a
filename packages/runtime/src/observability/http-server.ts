import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer as createListener, type Server, type Socket } from 'node:net';
import { Duplex } from 'node:stream';

/** Handles the requests for one path. */
export type Route = () => Promise<RouteResponse> | RouteResponse;

/** The response of a {@link Route}. */
export interface RouteResponse {
  readonly code: number;
  /** Default: plain text. */
  readonly contentType?: string;
  readonly text: string;
}

/** A listening server. */
export interface HttpServer {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * The maximum number of connections. Probes and Prometheus need a few. A metrics response takes about 100 kB until its
 * client has read it.
 */
const maxConnections = 64;

/**
 * The maximum duration of a connection. Node's defaults keep a connection without a request for a minute and a half.
 */
const connectionTimeoutMs = 10_000;

/** The maximum size of a request, in bytes. */
const maxRequestBytes = 8192;

/**
 * Serves GET and HEAD on the given paths, and 404 on all others. For probes and metrics: it has no TLS. To limit what
 * clients can occupy, it reads one request without a body on each of at most 64 connections.
 *
 * @param port 0 lets the system choose the port, which the result contains.
 * @throws the system's error if the port is in use.
 */
export async function serve(port: number, routes: Readonly<Record<string, Route>>): Promise<HttpServer> {
  const sockets = new Set<Socket>();
  const http = createHttpServer((request, response) => {
    // Do not parse the path with URL: it throws for paths such as "//", and an error here would end the process.
    const [path = '/'] = (request.url ?? '/').split('?', 1);
    const route = Object.hasOwn(routes, path) ? routes[path] : undefined;
    response.setHeader('connection', 'close');
    respond(request.method ?? 'GET', route).then(
      ({ code, contentType = 'text/plain; charset=utf-8', text }) => {
        if (code === 405) response.setHeader('allow', 'GET, HEAD');
        response.writeHead(code, { 'content-type': contentType }).end(request.method === 'HEAD' ? undefined : text);
      },
      (error: unknown) => {
        response.writeHead(500, { 'content-type': 'text/plain; charset=utf-8' }).end(String(error));
      },
    );
  });
  const listener = createListener({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    const timeout = setTimeout(() => socket.destroy(), connectionTimeoutMs);
    socket.on('error', () => {});
    socket.once('close', () => {
      sockets.delete(socket);
      clearTimeout(timeout);
    });
    if (sockets.size > maxConnections) oldestOfBusiestAddress(sockets)?.destroy();
    readRequest(socket, (request) => http.emit('connection', connectionWith(request, socket)));
  });
  await listen(listener, port);
  return {
    port: (listener.address() as AddressInfo).port,
    close: async () => {
      const closed = new Promise<void>((resolve) => listener.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/**
 * Reads one request, and closes the connection if more bytes follow. Node's parser would process everything that it has
 * read, even after the connection is closed. It would block the event loop for 50 ms and more for 64 KiB of requests.
 */
function readRequest(socket: Socket, received: (request: Buffer) => void): void {
  let request = Buffer.alloc(0);
  let isComplete = false;
  socket.on('data', (bytes: Buffer) => {
    if (isComplete || request.length + bytes.length > maxRequestBytes) return void socket.destroy();
    request = Buffer.concat([request, bytes]);
    const end = request.indexOf('\r\n\r\n');
    if (end === -1) return;
    if (end + 4 < request.length) return void socket.destroy();
    isComplete = true;
    received(request);
  });
}

/** A stream from which the HTTP server reads only this request. */
function connectionWith(request: Buffer, socket: Socket): Duplex {
  const connection = new Duplex({
    read: () => {},
    write: (chunk, _, done) => void socket.write(chunk, done),
    final: (done) => void socket.end(done),
    destroy: (error, done) => {
      socket.destroy();
      done(error);
    },
  });
  connection.on('error', () => {});
  socket.once('close', () => connection.destroy());
  connection.push(request);
  return connection;
}

/**
 * Returns the oldest connection of the address with the most connections. Otherwise one client could keep the probes
 * out.
 */
function oldestOfBusiestAddress(sockets: Iterable<Socket>): Socket | undefined {
  const byAddress = Map.groupBy(sockets, ({ remoteAddress }) => remoteAddress);
  const [greediest] = [...byAddress.values()].sort((one, other) => other.length - one.length);
  return greediest?.[0];
}

async function respond(method: string, route: Route | undefined): Promise<RouteResponse> {
  if (route === undefined) return { code: 404, text: 'not found\n' };
  if (method !== 'GET' && method !== 'HEAD') return { code: 405, text: 'method not allowed\n' };
  return route();
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, () => {
      server.off('error', reject);
      resolve();
    });
  });
}
