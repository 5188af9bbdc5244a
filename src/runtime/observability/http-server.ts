import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

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

/** The connections at once. Probes and Prometheus need a few, and a response of metrics takes about 100 kB until its client has read it. */
const maxConnections = 64;

/** In milliseconds. Node's defaults let connections without a request stay for a minute and a half, however many. */
const timeouts = { headersTimeout: 5000, requestTimeout: 10_000, connectionsCheckingInterval: 1000 };

/**
 * Serves GET and HEAD on the given paths, and 404 on all others. For probes and metrics: it has no TLS. What a client can hold is limited:
 * one request at a time on each of 64 connections.
 *
 * @param port 0 lets the system choose the port, which the result contains.
 * @throws the system's error if the port is in use.
 */
export async function serve(port: number, routes: Readonly<Record<string, Route>>): Promise<HttpServer> {
  const sockets = new Set<Socket>();
  const responding = new WeakSet<Socket>();
  const server = createServer(timeouts, (request, response) => {
    const { socket } = request;
    // A client that sends its next request before it has the response gets none: the responses would fill the memory.
    if (responding.has(socket)) return void socket.destroy();
    responding.add(socket);
    response.once('close', () => responding.delete(socket));
    // Not parsed with URL: it throws for paths such as "//", and an error here would end the process.
    const [path = '/'] = (request.url ?? '/').split('?', 1);
    const route = Object.hasOwn(routes, path) ? routes[path] : undefined;
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
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    if (sockets.size > maxConnections) oldestOfGreediest(sockets)?.destroy();
  });
  await listen(server, port);
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Of the address with the most connections, so that it does not keep the others out: the probes. */
function oldestOfGreediest(sockets: Iterable<Socket>): Socket | undefined {
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
