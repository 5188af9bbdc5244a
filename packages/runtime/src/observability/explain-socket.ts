import { once } from 'node:events';
import { chmod, lstat, mkdir, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Logger } from '../shared/logger.ts';
import type { ActivityQuery, ExplainQuery } from './explanation.ts';

/** The socket has its own folder. The folder's mode keeps other users out, even while the socket is being created. */
const socketPath = (folder: string): string => join(folder, 'echoperator', 'explain.sock');

/** A longer request cannot be a valid query. */
const maxRequestLength = 4096;
const timeoutMs = 5000;
const maxConnections = 8;

/** A listening socket. */
export interface ExplainServer {
  close(): Promise<void>;
}

/**
 * Serves queries on a Unix socket that only the user of this process may open.
 *
 * @param answer returns the response, which is sent as JSON. If it throws, the error is logged, and the connection ends
 *   without a response.
 * @throws the system's error if the folder cannot be written; Error if the socket's folder is open to other users, or
 *   another process serves the socket.
 */
export async function serveExplanations(
  folder: string,
  answer: (query: ExplainQuery | ActivityQuery) => unknown,
  log: Logger,
): Promise<ExplainServer> {
  const path = socketPath(folder);
  await makePrivateFolder(join(path, '..'));
  if (await isServed(path)) throw new Error(`another process responds on ${path}`);
  await rm(path, { force: true });
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    respond(socket, (query) => {
      try {
        return JSON.stringify(answer(query));
      } catch (error) {
        log.error({ err: error }, 'a query of explain could not be answered');
        return undefined;
      }
    });
  });
  server.maxConnections = maxConnections;
  await listen(server, path);
  await chmod(path, 0o600);
  return {
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/**
 * Queries the operator that serves explanations in this folder.
 *
 * @throws the system's error if no operator responds (`ENOENT`, `ECONNREFUSED`, `EACCES`); SyntaxError if the response
 *   is incomplete.
 */
export async function askForExplanation(folder: string, query: ExplainQuery | ActivityQuery): Promise<unknown> {
  const socket = connect(socketPath(folder));
  socket.setTimeout(timeoutMs, () => socket.destroy(new Error(`no response within ${timeoutMs / 1000} s`)));
  try {
    await once(socket, 'connect');
    socket.end(JSON.stringify(query));
    return JSON.parse(await text(socket));
  } finally {
    socket.destroy();
  }
}

function respond(socket: Socket, answer: (query: ExplainQuery | ActivityQuery) => string | undefined): void {
  let request = '';
  socket.setEncoding('utf8');
  socket.setTimeout(timeoutMs, () => socket.destroy());
  // The client has closed the connection.
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk) => {
    request += chunk;
    if (request.length > maxRequestLength) socket.destroy();
  });
  socket.on('end', () => {
    const query = parseQuery(request);
    const text = query === undefined ? undefined : answer(query);
    if (text === undefined) socket.destroy();
    else socket.end(text);
  });
}

function parseQuery(request: string): ExplainQuery | ActivityQuery | undefined {
  try {
    const { kind, namespace, name, withinSeconds } = JSON.parse(request);
    if (typeof withinSeconds === 'number' && namespace === undefined) return { withinSeconds };
    if (typeof namespace !== 'string') return undefined;
    if (typeof withinSeconds === 'number') return { namespace, withinSeconds };
    return typeof kind === 'string' && typeof name === 'string' ? { kind, namespace, name } : undefined;
  } catch {
    return undefined;
  }
}

async function makePrivateFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  const { uid, mode } = await lstat(path);
  const isPrivate = uid === process.getuid?.() && (mode & 0o077) === 0;
  if (!isPrivate) throw new Error(`${path} must belong to the user of this process, with the mode 700`);
}

/** If a killed process left the socket behind, connecting is refused. */
async function isServed(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

async function listen(server: Server, path: string): Promise<void> {
  server.listen(path);
  await once(server, 'listening');
}
