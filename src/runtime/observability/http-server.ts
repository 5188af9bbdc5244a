import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

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

/** In milliseconds. Node's defaults let connections without a request stay for a minute and a half, however many. */
const timeouts = { headersTimeout: 5000, requestTimeout: 10_000, connectionsCheckingInterval: 1000 };

/**
 * Serves GET and HEAD on the given paths, and 404 on all others. For probes and metrics: it has no TLS.
 *
 * @param port 0 lets the system choose the port, which the result contains.
 * @throws the system's error if the port is in use.
 */
export async function serve(port: number, routes: Readonly<Record<string, Route>>): Promise<HttpServer> {
  const server = createServer(timeouts, (request, response) => {
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
