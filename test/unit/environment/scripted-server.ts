import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Connection } from '@echoperator/runtime/client';

/** Which request a test waits for; absent members match anything. */
export interface RequestFilter {
  readonly method?: string;
  readonly path?: string;
  readonly watch?: boolean;
}

/** How long a test waits for a request before it says which one did not come. */
const requestTimeoutMs = 30_000;

/**
 * A local HTTP server whose every answer the test writes itself: it takes the next request when it is there, looks at
 * it, and answers as an API server might, or as none should.
 */
export class ScriptedServer {
  /**
   * Whether it hands a streamed list to the test. If not it refuses, as a server does that cannot: a list is asked for.
   */
  streamsLists = false;
  /** How many connections it has accepted. */
  connections = 0;
  readonly #server: Server;
  readonly #unclaimed: Exchange[] = [];
  readonly #waiters: { readonly filter: RequestFilter; readonly take: (exchange: Exchange) => void }[] = [];

  private constructor(server: Server) {
    this.#server = server;
    server.on('connection', () => {
      this.connections += 1;
    });
    server.on('request', (request, response) => this.#receive(request, response));
  }

  static async start(): Promise<ScriptedServer> {
    const server = createServer();
    const scripted = new ScriptedServer(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return scripted;
  }

  get connection(): Connection {
    const { port } = this.#server.address() as AddressInfo;
    return { server: new URL(`http://127.0.0.1:${port}`), tls: {}, authentication: async () => ({}) };
  }

  /** How many requests came that no test has taken yet. */
  get unclaimed(): number {
    return this.#unclaimed.length;
  }

  /** The next request that fits and that nobody has taken, as soon as it is there. */
  next(filter: RequestFilter = {}): Promise<Exchange> {
    const index = this.#unclaimed.findIndex((exchange) => exchange.fits(filter));
    const [exchange] = index === -1 ? [] : this.#unclaimed.splice(index, 1);
    if (exchange !== undefined) return Promise.resolve(exchange);
    return new Promise((resolve, reject) => {
      const waiter = { filter, take: resolve };
      const timeout = setTimeout(() => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
        const others = this.#unclaimed.map(({ method, path }) => `${method} ${path}`).join(', ');
        reject(
          new Error(
            `no request ${JSON.stringify(filter)} within ${requestTimeoutMs} ms; there are: ${others || 'none'}`,
          ),
        );
      }, requestTimeoutMs);
      waiter.take = (found) => {
        clearTimeout(timeout);
        resolve(found);
      };
      this.#waiters.push(waiter);
    });
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  #receive(request: IncomingMessage, response: ServerResponse): void {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('error', () => {});
    request.on('end', () => {
      const exchange = new Exchange(request, Buffer.concat(chunks).toString('utf8'), response);
      if (exchange.query.has('sendInitialEvents') && !this.streamsLists) return exchange.refuse(422, 'Invalid');
      const index = this.#waiters.findIndex(({ filter }) => exchange.fits(filter));
      const [waiter] = index === -1 ? [] : this.#waiters.splice(index, 1);
      if (waiter === undefined) this.#unclaimed.push(exchange);
      else waiter.take(exchange);
    });
  }
}

/** One request, and the means to answer it. */
export class Exchange {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  readonly body: unknown;
  /** Resolves when the connection is gone or the answer is out. */
  readonly closed: Promise<void>;
  readonly #response: ServerResponse;

  constructor(request: IncomingMessage, body: string, response: ServerResponse) {
    const url = new URL(request.url ?? '', 'http://localhost');
    this.method = request.method ?? '';
    this.path = url.pathname;
    this.query = url.searchParams;
    this.headers = request.headers;
    this.body = body === '' ? undefined : JSON.parse(body);
    this.closed = new Promise((resolve) => response.on('close', () => resolve()));
    this.#response = response;
    response.on('error', () => {});
  }

  fits({ method, path, watch }: RequestFilter): boolean {
    return (
      (method === undefined || method === this.method) &&
      (path === undefined || path === this.path) &&
      (watch === undefined || watch === this.query.has('watch'))
    );
  }

  text(code: number, contentType: string, text: string, headers: Readonly<Record<string, string>> = {}): void {
    this.#response.writeHead(code, { 'content-type': contentType, ...headers }).end(text);
  }

  json(code: number, value: unknown): void {
    this.text(code, 'application/json', JSON.stringify(value));
  }

  /** Refuses as the API server does. */
  refuse(code: number, reason: string, rest: object = {}): void {
    this.json(code, {
      kind: 'Status',
      apiVersion: 'v1',
      status: 'Failure',
      code,
      reason,
      message: `${reason} it is`,
      ...rest,
    });
  }

  /** Answers a list. */
  list(resourceVersion: string, items: readonly object[], token?: string): void {
    this.json(200, { metadata: { resourceVersion, ...(token !== undefined && { continue: token }) }, items });
  }

  /** Begins to answer with a body that the test writes piece by piece. */
  stream(): Stream {
    this.#response.writeHead(200, { 'content-type': 'application/json' });
    this.#response.flushHeaders();
    return new Stream(this.#response);
  }

  /** Closes the connection without a word. */
  cut(): void {
    this.#response.destroy();
  }
}

/** The body of an answer under way: a watch. */
export class Stream {
  readonly #response: ServerResponse;

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  write(bytes: string | Buffer): void {
    this.#response.write(bytes);
  }

  send(type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR', object: object): void {
    this.write(`${JSON.stringify({ type, object })}\n`);
  }

  /** Ends the watch as the API server does when its time is over. */
  end(): void {
    this.#response.end();
  }

  /** Breaks the connection in the middle. */
  cut(): void {
    this.#response.destroy();
  }
}
