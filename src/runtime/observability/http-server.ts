import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Answers one path with a status code and a text. */
export type Route = () => Promise<Answer> | Answer;

/** What is sent for a path; the content type is plain text unless it says otherwise. */
export interface Answer {
  readonly code: number;
  readonly contentType?: string;
  readonly text: string;
}

/** A listening server. */
export interface Listening {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Serves GET and HEAD on the paths given, 404 elsewhere. For probes and metrics: no TLS, no keep-alive beyond Node's.
 *
 * @param port 0 lets the system choose; the answer tells which.
 * @throws the system's error when the port is taken.
 */
export async function serve(port: number, routes: Readonly<Record<string, Route>>): Promise<Listening> {
  const server = createServer((request, response) => {
    // Not by URL, which throws for what a client may well send ("//"): here that would end the process.
    const [path = '/'] = (request.url ?? '/').split('?', 1);
    const route = Object.hasOwn(routes, path) ? routes[path] : undefined;
    answer(request.method ?? 'GET', route).then(
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

async function answer(method: string, route: Route | undefined): Promise<Answer> {
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
