import { once } from 'node:events';
import {
  createServer as createHttpServer,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createHttpsServer, Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import type { Connection } from '../client/connection.ts';
import { type Fault, type FaultTarget, InjectedFault } from './fault.ts';
import { ProxiedAnswer, statusObject } from './proxied-answer.ts';
import { isWatch, type ProxiedRequest, proxiedRequest } from './proxied-request.ts';
import { resetConnection } from './reset-connection.ts';

/** What a {@link FaultProxy} needs. */
export interface FaultProxyOptions {
  /**
   * The API server, and who the proxy is to it: TLS ends here, so that a client's certificate gets no further. A request
   * that has an `Authorization` of its own keeps it, and goes without the proxy's certificate.
   */
  readonly upstream: Connection;
  /** The proxy's own certificate for 127.0.0.1, and who has signed it. Absent: clients speak plain HTTP to it. */
  readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string };
}

/** These are of one connection, and an answer that may break off has no length. */
const connectionHeaders = ['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'host'];

/** Longer than any client keeps an idle connection: it is not the proxy that closes them. */
const keepAliveTimeoutMs = 600_000;

/**
 * An HTTP/1.1 proxy on 127.0.0.1 before an API server, whose faults a test switches on and off and counts.
 *
 * @example
 * await using proxy = await FaultProxy.start({ upstream: server.connection });
 * const transport = new Transport(proxy.connection, { userAgent: 'my-test' });
 * const storm = proxy.inject({ type: 'answer', status: 503, reason: 'ServiceUnavailable' }, { on: isWrite });
 * // … what the operator does meanwhile …
 * storm.off();
 * expect(storm.count).toBeGreaterThan(0);
 */
export class FaultProxy implements AsyncDisposable {
  readonly connection: Connection;
  readonly #server: Server;
  readonly #upstream: Connection;
  readonly #agents: { readonly identified: HttpAgent; readonly anonymous: HttpAgent };
  /** The connections by the client's port: a reset needs the socket below TLS. */
  readonly #sockets = new Map<number | undefined, Socket>();
  readonly #unanswered = new Set<Forwarded>();
  readonly #answers = new Set<ProxiedAnswer>();
  readonly #faults = new Set<InjectedFault>();
  readonly #statuses = new Map<number, number>();

  private constructor(server: Server, port: number, { upstream, tls }: FaultProxyOptions) {
    const { cert, key, ...unidentified } = upstream.tls;
    const agent = (options: object): HttpAgent =>
      upstream.server.protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options);
    this.#server = server;
    this.#upstream = upstream;
    this.#agents = {
      identified: agent({ ...upstream.tls, keepAlive: true }),
      anonymous: agent({ ...unidentified, keepAlive: true }),
    };
    this.connection = {
      server: new URL(`${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`),
      tls: tls === undefined ? {} : { ca: tls.ca },
      authentication: async () => ({}),
    };
    server.on('request', (request, response) => this.#receive(request, response));
    server.on('connection', (socket: Socket) => {
      const { remotePort } = socket;
      this.#sockets.set(remotePort, socket);
      socket.on('close', () => this.#sockets.delete(remotePort));
      socket.on('error', () => {});
    });
  }

  /** Listens on a free port. */
  static async start(options: FaultProxyOptions): Promise<FaultProxy> {
    const server = options.tls === undefined ? createHttpServer() : createHttpsServer(options.tls);
    server.keepAliveTimeout = keepAliveTimeoutMs;
    server.requestTimeout = 0;
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error(`listening on ${address}, not on a port`);
    return new FaultProxy(server, address.port, options);
  }

  /** Switches a fault on: for requests to come and for answers under way, until its {@link InjectedFault.off}. */
  inject(fault: Fault, target: FaultTarget = {}): InjectedFault {
    const injected = new InjectedFault(fault, target);
    this.#faults.add(injected);
    injected.ended.addEventListener('abort', () => this.#faults.delete(injected), { once: true });
    for (const answer of this.#answers) {
      if (strikesAnswers(fault, answer.request) && injected.isDue(answer.request)) answer.strike(injected, 'under way');
    }
    for (const forwarded of this.#unanswered) {
      const { proxied, due } = forwarded;
      if (due === undefined && strikesAnswers(fault, proxied) && injected.isDue(proxied)) forwarded.due = injected;
    }
    return injected;
  }

  /** How many requests the API server itself has answered with this status. */
  answered(status: number): number {
    return this.#statuses.get(status) ?? 0;
  }

  /** The watches that are open now. */
  get watches(): number {
    return [...this.#answers].filter(({ request }) => isWatch(request)).length;
  }

  /** Resets every connection and listens no more. */
  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets.values()) socket.destroy();
    await closed;
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #receive(request: IncomingMessage, response: ServerResponse): void {
    const proxied = proxiedRequest(request.method ?? 'GET', request.url ?? '/');
    const due = [...this.#faults].find(
      (injected) =>
        (strikesRequests(injected.fault) || strikesAnswers(injected.fault, proxied)) && injected.isDue(proxied),
    );
    request.on('error', () => {});
    response.on('error', () => {});
    if (due?.fault.type === 'answer' && due.struck()) {
      refuse(due.fault, request, response);
      return;
    }
    const forwarded: Forwarded = { proxied, request, response, due };
    this.#unanswered.add(forwarded);
    response.on('close', () => this.#unanswered.delete(forwarded));
    this.#forward(forwarded).catch(() => response.destroy());
  }

  async #forward(forwarded: Forwarded): Promise<void> {
    const { request, response } = forwarded;
    const { server } = this.#upstream;
    const identified = request.headers.authorization === undefined;
    const upstream = (server.protocol === 'https:' ? httpsRequest : httpRequest)(new URL(request.url ?? '/', server), {
      method: request.method,
      headers: {
        ...withoutConnection(request.headers),
        ...(request.headers['content-length'] && { 'content-length': request.headers['content-length'] }),
        ...(identified && (await this.#upstream.authentication())),
      },
      agent: identified ? this.#agents.identified : this.#agents.anonymous,
    });
    response.on('close', () => upstream.destroy());
    upstream.on('error', () => response.destroy());
    upstream.on('response', (answer) => this.#answer(forwarded, answer));
    request.pipe(upstream);
  }

  #answer(forwarded: Forwarded, upstream: IncomingMessage): void {
    const { proxied, request, response, due } = forwarded;
    this.#unanswered.delete(forwarded);
    const status = upstream.statusCode ?? 502;
    this.#statuses.set(status, this.answered(status) + 1);
    const { remotePort } = request.socket;
    const cut = (): void => {
      const socket = this.#sockets.get(remotePort);
      if (socket !== undefined) resetConnection(socket);
    };
    if (due?.fault.type === 'lost-reply') {
      upstream.on('error', cut);
      upstream.on('end', () => {
        due.struck();
        cut();
      });
      upstream.resume();
      return;
    }
    response.writeHead(status, withoutConnection(upstream.headers));
    response.flushHeaders();
    const answer = new ProxiedAnswer(proxied, upstream, response, cut);
    this.#answers.add(answer);
    response.on('close', () => this.#answers.delete(answer));
    if (due !== undefined && strikesAnswers(due.fault, proxied)) answer.strike(due, 'beginning');
  }
}

/** A request that the API server has yet to answer. */
interface Forwarded {
  readonly proxied: ProxiedRequest;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** What will strike it or its answer. */
  due: InjectedFault | undefined;
}

const strikesRequests = ({ type }: Fault): boolean => type === 'answer' || type === 'lost-reply';

/** No other answer than a watch's consists of events. */
const strikesAnswers = (fault: Fault, request: ProxiedRequest): boolean =>
  !strikesRequests(fault) && (fault.type !== 'error-event' || isWatch(request));

function withoutConnection(headers: IncomingMessage['headers']): OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !connectionHeaders.includes(name)));
}

function refuse(fault: Fault & { type: 'answer' }, request: IncomingMessage, response: ServerResponse): void {
  const { status, reason, retryAfterSeconds } = fault;
  request.resume();
  response.writeHead(status, {
    'content-type': 'application/json',
    ...(retryAfterSeconds !== undefined && { 'retry-after': String(retryAfterSeconds) }),
  });
  response.end(JSON.stringify(statusObject(status, reason)));
}
