import { once } from 'node:events';
import {
  type ClientRequest,
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
import { buffer } from 'node:stream/consumers';
import type { Connection } from '@echoperator/runtime/client';
import { type Fault, type FaultTarget, InjectedFault } from './fault.ts';
import { isWatch, isWrite, type ProxiedRequest, proxiedRequest } from './proxied-request.ts';
import { ProxiedResponse, statusObject } from './proxied-response.ts';
import { resetConnection } from './reset-connection.ts';

/** Options of a {@link FaultProxy}. */
export interface FaultProxyOptions {
  /**
   * The API server, and the proxy's credentials for it. The proxy terminates TLS, so a client's certificate does not
   * reach the API server. A request with an `Authorization` header keeps it and is sent without the proxy's
   * certificate.
   */
  readonly upstream: Connection;
  /** The proxy's certificate for 127.0.0.1, and its CA. Default: the proxy serves plain HTTP. */
  readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string };
  /** Observes every request and response. Default: none. */
  readonly observer?: ProxyObserver;
}

/** Observes the requests of a {@link FaultProxy}, for example to record them. */
export interface ProxyObserver {
  /** A request has arrived. @param clientPort the port of the client's end of the connection */
  request?(request: ProxiedRequest, clientPort: number | undefined): void;
  /** A response that is not a watch is complete; undefined: the API server never responds. Called once per request. */
  response?(request: ProxiedRequest, response: ObservedResponse | undefined): void;
  /** The API server has sent an event of a watch: a line of JSON. */
  watchEvent?(request: ProxiedRequest, line: string): void;
  /**
   * The API server has ended or refused a watch, as it does at its timeout, and when a CustomResourceDefinition
   * changes.
   */
  watchEnded?(request: ProxiedRequest): void;
  /** A fault of the type `crash` has struck. */
  crash?(): void;
}

/** A response of the API server. */
export interface ObservedResponse {
  readonly status: number;
  readonly body: string;
}

/**
 * These headers are not forwarded: they belong to one connection, and a response that may break off must have no
 * content-length.
 */
const connectionHeaders = ['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'host'];

/** Longer than a client keeps an idle connection, so that the client closes it first. */
const keepAliveTimeoutMs = 600_000;

/**
 * An HTTP/1.1 proxy on 127.0.0.1 in front of an API server. Tests switch faults on and off and count their effects.
 *
 * @example
 * await using proxy = await FaultProxy.start({ upstream: server.connection });
 * const client = createClient(proxy.connection, { fieldManager: 'my-test' });
 * const storm = proxy.inject({ type: 'error-response', status: 503, reason: 'ServiceUnavailable' }, { on: isWrite });
 * // … what the operator does meanwhile …
 * storm.off();
 * expect(storm.count).toBeGreaterThan(0);
 */
export class FaultProxy implements AsyncDisposable {
  readonly connection: Connection;
  readonly #server: Server;
  readonly #upstream: Connection;
  readonly #observer: ProxyObserver;
  readonly #agents: { readonly identified: HttpAgent; readonly anonymous: HttpAgent };
  /** The connections by client port, because a reset needs the socket below TLS. */
  readonly #sockets = new Map<number | undefined, Socket>();
  readonly #forwarded = new Set<ForwardedRequest>();
  readonly #responses = new Set<ProxiedResponse>();
  readonly #faults = new Set<InjectedFault>();
  readonly #statuses = new Map<number, number>();
  #hasCrashed = false;

  private constructor(server: Server, port: number, { upstream, tls, observer = {} }: FaultProxyOptions) {
    const { cert, key, ...unidentified } = upstream.tls;
    const agent = (options: object): HttpAgent =>
      upstream.server.protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options);
    this.#server = server;
    this.#upstream = upstream;
    this.#observer = observer;
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
      socket.on('error', () => {});
      if (this.#hasCrashed) {
        socket.destroy();
        return;
      }
      this.#sockets.set(remotePort, socket);
      socket.on('close', () => this.#sockets.delete(remotePort));
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

  /** Switches a fault on for new requests and for responses in flight, until {@link InjectedFault.off}. */
  inject(fault: Fault, target: FaultTarget = {}): InjectedFault {
    const injected = new InjectedFault(fault, target);
    this.#faults.add(injected);
    injected.ended.addEventListener('abort', () => this.#faults.delete(injected), { once: true });
    for (const response of this.#responses) {
      const { request } = response;
      if (affectsResponse(fault, request) && injected.isDue(request)) response.applyFault(injected, 'in flight');
    }
    for (const forwarded of this.#forwarded) {
      const { proxied, due } = forwarded;
      if (due === undefined && affectsResponse(fault, proxied) && injected.isDue(proxied)) forwarded.due = injected;
    }
    return injected;
  }

  /** Returns how many responses of the API server had this status. */
  responses(status: number): number {
    return this.#statuses.get(status) ?? 0;
  }

  /** Simulates the end of the client's process, like the fault `crash`. */
  crash(): void {
    this.#hasCrashed = true;
    for (const socket of this.#sockets.values()) socket.destroy();
    this.#observer.crash?.();
  }

  /** The number of open watches. */
  get watches(): number {
    return [...this.#responses].filter(({ request }) => isWatch(request)).length;
  }

  /** Stops listening and closes every connection. */
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
    // Call the observer first, so that it can choose the request for a fault.
    this.#observer.request?.(proxied, request.socket.remotePort);
    const due = [...this.#faults].find(
      (injected) =>
        (affectsRequest(injected.fault) || affectsResponse(injected.fault, proxied)) && injected.isDue(proxied),
    );
    request.on('error', () => {});
    response.on('error', () => {});
    if (due?.fault.type === 'error-response' && due.tryCount()) {
      sendError(due.fault, request, response);
      this.#observer.response?.(proxied, undefined);
      return;
    }
    if (due?.fault.type === 'crash' && due.fault.at === 'late' && due.tryCount()) {
      void this.#forwardLate(proxied, request, due.ended);
      return;
    }
    if (due?.fault.type === 'crash' && due.fault.at === 'unsent' && due.tryCount()) {
      this.crash();
      this.#observer.response?.(proxied, undefined);
      return;
    }
    const forwarded: ForwardedRequest = { proxied, request, response, due };
    this.#forwarded.add(forwarded);
    response.on('close', () => this.#forwarded.delete(forwarded));
    this.#forward(forwarded).catch(() => {
      response.destroy();
      this.#observer.response?.(proxied, undefined);
    });
  }

  async #send(request: IncomingMessage, asOf?: string): Promise<ClientRequest> {
    const { server } = this.#upstream;
    const url = new URL(request.url ?? '/', server);
    // A later page has the version of the first page.
    if (asOf !== undefined && !url.searchParams.has('continue')) {
      url.searchParams.set('resourceVersion', asOf);
      url.searchParams.set('resourceVersionMatch', 'Exact');
    }
    const usesProxyCredentials = request.headers.authorization === undefined;
    return (server.protocol === 'https:' ? httpsRequest : httpRequest)(url, {
      method: request.method,
      headers: {
        ...withoutConnectionHeaders(request.headers),
        ...(request.headers['content-length'] && { 'content-length': request.headers['content-length'] }),
        ...(usesProxyCredentials && (await this.#upstream.authentication())),
      },
      agent: usesProxyCredentials ? this.#agents.identified : this.#agents.anonymous,
    });
  }

  /** Crashes first, and forwards the request afterwards. */
  async #forwardLate(proxied: ProxiedRequest, request: IncomingMessage, isDue: AbortSignal): Promise<void> {
    const body = await buffer(request);
    this.crash();
    if (!isDue.aborted) await once(isDue, 'abort');
    const upstream = await this.#send(request);
    upstream.on('error', () => this.#observer.response?.(proxied, undefined));
    upstream.on('response', (response) => {
      this.#observe(proxied, response);
      response.resume();
    });
    upstream.end(body);
  }

  async #forward(forwarded: ForwardedRequest): Promise<void> {
    const { proxied, request, response, due } = forwarded;
    if (due?.fault.type === 'delayed' && due.tryCount()) await due.fault.until(proxied);
    if (response.destroyed) {
      // The client has closed the connection.
      this.#observer.response?.(proxied, undefined);
      return;
    }
    const asOf = due?.fault.type === 'as-of' && due.tryCount() ? due.fault.resourceVersion : undefined;
    const upstream = await this.#send(request, asOf);
    response.on('close', () => {
      // If a client has sent a write completely before it crashes, the API server may still process the write.
      if (!(this.#hasCrashed && isWrite(proxied) && request.readableEnded)) upstream.destroy();
    });
    upstream.on('error', () => response.destroy());
    let hasResponded = false;
    upstream.on('response', (upstreamResponse) => {
      hasResponded = true;
      this.#respond(forwarded, upstreamResponse);
    });
    upstream.once('close', () => {
      if (!hasResponded) this.#observer.response?.(proxied, undefined);
    });
    request.pipe(upstream);
  }

  #respond(forwarded: ForwardedRequest, upstream: IncomingMessage): void {
    const { proxied, request, response, due } = forwarded;
    this.#forwarded.delete(forwarded);
    const status = upstream.statusCode ?? 502;
    this.#statuses.set(status, this.responses(status) + 1);
    this.#observe(proxied, upstream);
    if (this.#hasCrashed) {
      // Discard the response: a response that nobody reads never ends.
      upstream.resume();
      return;
    }
    const { remotePort } = request.socket;
    const reset = (): void => {
      const socket = this.#sockets.get(remotePort);
      if (socket !== undefined) resetConnection(socket);
    };
    if (due?.fault.type === 'lost-response') {
      upstream.on('error', reset);
      upstream.on('end', () => {
        due.tryCount();
        reset();
      });
      upstream.resume();
      return;
    }
    if (due?.fault.type === 'crash') {
      const crash = (): void => {
        if (due.tryCount()) this.crash();
      };
      if (due.fault.at === 'reply-lost') {
        upstream.on('end', crash).resume();
        return;
      }
      response.on('finish', crash);
    }
    response.writeHead(status, withoutConnectionHeaders(upstream.headers));
    response.flushHeaders();
    const proxiedResponse = new ProxiedResponse(proxied, upstream, response, reset);
    this.#responses.add(proxiedResponse);
    response.on('close', () => this.#responses.delete(proxiedResponse));
    if (due !== undefined && affectsResponse(due.fault, proxied)) proxiedResponse.applyFault(due, 'start');
  }

  #observe(proxied: ProxiedRequest, upstream: IncomingMessage): void {
    const { response: completed, watchEvent, watchEnded } = this.#observer;
    if ((completed ?? watchEvent ?? watchEnded) === undefined) return;
    let text = '';
    const decoder = new TextDecoder();
    upstream.on('data', (chunk: Buffer) => {
      text += decoder.decode(chunk, { stream: true });
      // The response to a refused watch is an error, not a stream of events.
      if (!isWatch(proxied) || upstream.statusCode !== 200) return;
      const lines = text.split('\n');
      text = lines.pop() ?? '';
      for (const line of lines) this.#observer.watchEvent?.(proxied, line);
    });
    upstream.once('close', () => {
      const response = upstream.complete ? { status: upstream.statusCode ?? 502, body: text } : undefined;
      if (!isWatch(proxied)) this.#observer.response?.(proxied, response);
      else if (response !== undefined) this.#observer.watchEnded?.(proxied);
    });
  }
}

/** A request to which the API server has not responded yet. */
interface ForwardedRequest {
  readonly proxied: ProxiedRequest;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The fault that will affect the request or its response. */
  due: InjectedFault | undefined;
}

const affectsRequest = ({ type }: Fault): boolean =>
  ['error-response', 'delayed', 'as-of', 'lost-response', 'crash'].includes(type);

/** Only a watch can deliver an ERROR event, or hold events back. */
const affectsResponse = (fault: Fault, request: ProxiedRequest): boolean =>
  !affectsRequest(fault) && ((fault.type !== 'error-event' && fault.type !== 'hold') || isWatch(request));

function withoutConnectionHeaders(headers: IncomingMessage['headers']): OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !connectionHeaders.includes(name)));
}

function sendError(
  fault: Fault & { type: 'error-response' },
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const { status, reason, retryAfterSeconds } = fault;
  request.resume();
  response.writeHead(status, {
    'content-type': 'application/json',
    ...(retryAfterSeconds !== undefined && { 'retry-after': String(retryAfterSeconds) }),
  });
  response.end(JSON.stringify(statusObject(status, reason)));
}
