import type { Connection, Status } from '@echoperator/runtime/client';
import { isObject } from '@echoperator/runtime/internal';
import { Dispatcher } from 'undici';
import type { SimulatedRequest } from './resource-request.ts';
import type { SimulatedApiServer, SimulatedResponse } from './simulated-api-server.ts';
import { SimulatedWatch } from './simulated-watch.ts';

/** How long undici waits for a response unless the request says otherwise. */
const defaultHeadersTimeoutMs = 30_000;

/** A step that can happen next. */
export interface SimulationStep {
  /** For the log of a run: `echoperator: PATCH /apis/batch/v1/…`. */
  readonly description: string;
  /** Runs the step. If it waits for something, that must happen without another step. */
  run(): void | Promise<void>;
}

/** The network between the processes of a simulation and its API server. Nothing happens until a step is run. */
export class SimulatedNetwork {
  readonly #server: SimulatedApiServer;
  /** In the order in which they were sent. */
  readonly #exchanges = new Set<SimulatedExchange>();
  /** The processes that are cut off. A process is listed once per ongoing cut-off. */
  readonly #cutOff: string[] = [];
  #requests = 0;
  #lateWrites = 0;

  readonly #responded: ResponseListener;

  /** @param responded is called before a process gets a response. */
  constructor(server: SimulatedApiServer, responded: ResponseListener = () => {}) {
    this.#server = server;
    this.#responded = responded;
  }

  /** Returns a connection for a process. Its requests wait for {@link steps}, unless `isImmediate`. */
  connect(process: string, { isImmediate = false }: { readonly isImmediate?: boolean } = {}): Connection {
    const opened = (exchange: SimulatedExchange): void => {
      this.#exchanges.add(exchange);
      if (!isImmediate && !exchange.isSentAtRest) this.#requests += 1;
    };
    return {
      server: new URL('http://kubernetes.simulated'),
      tls: {},
      authentication: () => ({}),
      openPool: () =>
        new SimulatedPool(process, isImmediate, {
          server: this.#server,
          opened,
          closed: (exchange) => this.#exchanges.delete(exchange),
          wroteLate: () => {
            this.#lateWrites += 1;
          },
          responded: this.#responded,
        }),
    };
  }

  /** How many requests processes have sent, without those that an operator at rest sends too. */
  get requests(): number {
    return this.#requests;
  }

  /** How many requests of crashed processes have changed something. */
  get lateWrites(): number {
    return this.#lateWrites;
  }

  /**
   * The steps that can happen next. Requests and responses come first, then events of watches, each in the order in
   * which the requests were sent. The requests of ended processes come last, so that the next process can work first.
   */
  steps(): readonly SimulationStep[] {
    const all = this.#reachable.map((exchange) => ({ exchange, step: exchange.next() }));
    const ready = all.filter(
      (each): each is { exchange: SimulatedExchange; step: SimulationStep } => each.step !== undefined,
    );
    const late = ready.filter(({ exchange }) => exchange.isAbandoned);
    const live = ready.filter(({ exchange }) => !exchange.isAbandoned);
    const [events, responses] = [
      live.filter(({ exchange }) => exchange.isStreaming),
      live.filter(({ exchange }) => !exchange.isStreaming),
    ];
    return [...responses, ...events, ...late].map(({ step }) => step);
  }

  /** Sends a bookmark to each watch that has delivered everything, as the API server does once a minute. */
  bookmark(): void {
    for (const exchange of this.#reachable) exchange.bookmark();
  }

  get #reachable(): readonly SimulatedExchange[] {
    return [...this.#exchanges].filter(({ process }) => !this.#cutOff.includes(process));
  }

  /** Blocks all traffic of a process for this time: its requests wait, or run into their timeouts. */
  cutOff(process: string, forMs: number): void {
    this.#cutOff.push(process);
    setTimeout(() => this.#cutOff.splice(this.#cutOff.indexOf(process), 1), forMs);
  }

  /** Breaks all connections of a process. The server never processes a request that it has not processed by then. */
  cut(process: string): void {
    for (const exchange of [...this.#exchanges]) if (exchange.process === process) exchange.cut();
  }

  /** Marks a process as ended: its responses are dropped. Requests in flight may still arrive. */
  abandon(process: string): void {
    for (const exchange of [...this.#exchanges]) if (exchange.process === process) exchange.abandon();
  }
}

/** Called with the process, the HTTP method and the body. */
export type ResponseListener = (process: string, method: string, body: object) => void;

/** What a pool needs of its network. */
interface NetworkOfPool {
  readonly server: SimulatedApiServer;
  readonly opened: (exchange: SimulatedExchange) => void;
  readonly closed: (exchange: SimulatedExchange) => void;
  readonly responded: ResponseListener;
  /** A request of a crashed process has changed something. */
  readonly wroteLate: () => void;
}

/** The connections of one process. Replaces undici's pool. */
class SimulatedPool extends Dispatcher {
  readonly #exchanges = new Set<SimulatedExchange>();
  readonly #process: string;
  readonly #isImmediate: boolean;
  readonly #network: NetworkOfPool;
  #isDestroyed = false;

  constructor(process: string, isImmediate: boolean, network: NetworkOfPool) {
    super();
    this.#process = process;
    this.#isImmediate = isImmediate;
    this.#network = network;
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const { opened, closed } = this.#network;
    const exchange = new SimulatedExchange(this.#network, this.#process, options, handler, () => {
      this.#exchanges.delete(exchange);
      closed(exchange);
    });
    if (this.#isDestroyed) {
      handler.onResponseError?.(exchange, new Error('the client is destroyed'));
      return false;
    }
    this.#exchanges.add(exchange);
    opened(exchange);
    exchange.send();
    // `finish` throws an unsupported request's error to the sender.
    if (this.#isImmediate) exchange.finish();
    return true;
  }

  override close(): Promise<void>;
  override close(callback: () => void): void;
  override close(callback?: () => void): Promise<void> | void {
    return callback === undefined ? Promise.resolve() : callback();
  }

  override destroy(): Promise<void>;
  override destroy(...given: unknown[]): Promise<void> | void {
    this.#isDestroyed = true;
    for (const exchange of [...this.#exchanges]) exchange.fail(new Error('the connection was destroyed'));
    const callback = given.at(-1);
    return typeof callback === 'function' ? void callback() : Promise.resolve();
  }
}

/** A request in flight, and its response. */
class SimulatedExchange implements Dispatcher.DispatchController {
  readonly process: string;
  readonly #server: SimulatedApiServer;
  readonly #responded: ResponseListener;
  readonly #wroteLate: () => void;
  readonly #request: SimulatedRequest;
  readonly #handler: Dispatcher.DispatchHandler;
  readonly #forget: () => void;
  readonly #headersTimeoutMs: number;
  readonly rawHeaders = [];
  readonly rawTrailers = [];
  aborted = false;
  paused = false;
  reason: Error | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #state: 'sent' | 'processed' | 'streaming' | 'ended' = 'sent';
  #isAbandoned = false;
  #hasCrashed = false;
  #response: SimulatedResponse | SimulatedWatch | undefined;

  constructor(
    { server, responded, wroteLate }: Pick<NetworkOfPool, 'server' | 'responded' | 'wroteLate'>,
    process: string,
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
    forget: () => void,
  ) {
    this.process = process;
    this.#server = server;
    this.#responded = responded;
    this.#wroteLate = wroteLate;
    this.#request = { ...requestOf(options), from: process };
    this.#handler = handler;
    this.#forget = forget;
    this.#headersTimeoutMs = options.headersTimeout ?? defaultHeadersTimeoutMs;
  }

  get isWatch(): boolean {
    return this.#request.path.includes('watch=true');
  }

  /**
   * Whether the request is a list, a watch, about a Lease, or the final count of a series of Events, which is written
   * minutes after the last one. An operator at rest sends these too.
   */
  get isSentAtRest(): boolean {
    const { method, path } = this.#request;
    if (path.includes('/leases') || (method === 'PATCH' && path.startsWith('/apis/events.k8s.io/'))) return true;
    return method === 'GET' && /[?&](?:watch|limit)=/.test(path);
  }

  /** Whether nothing waits for the response any more. */
  get isAbandoned(): boolean {
    return this.#isAbandoned;
  }

  get isStreaming(): boolean {
    return this.#state === 'streaming';
  }

  /** The next step of this exchange; undefined if it waits. */
  next(): SimulationStep | undefined {
    const description = `${this.process}: ${this.#request.method} ${this.#request.path}`;
    switch (this.#state) {
      case 'sent':
        return { description: `${description} reaches the server`, run: () => this.#process() };
      case 'processed':
        return { description: `${description} gets its response`, run: () => this.#respond() };
      case 'streaming':
        if (this.paused || !(this.#response instanceof SimulatedWatch) || !this.#response.hasNext) return undefined;
        return { description: `${description} gets an event`, run: () => this.#deliverEvent() };
      case 'ended':
        return undefined;
    }
  }

  send(): void {
    try {
      this.#handler.onRequestStart?.(this, {});
    } catch {
      // Undici drops a request whose handler throws here, because its gate is closed.
      this.#end();
      return;
    }
    if (this.#headersTimeoutMs > 0) {
      const error = Object.assign(new Error('Headers Timeout Error'), { code: 'UND_ERR_HEADERS_TIMEOUT' });
      this.#timer = setTimeout(() => this.#giveUp(error), this.#headersTimeoutMs);
    }
  }

  /** Processes the request and delivers its response immediately. */
  finish(): void {
    try {
      if (this.#state === 'sent') this.#process();
      if (this.#state === 'processed') this.#respond();
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  /** The sender stops waiting, but the request may still arrive. */
  #giveUp(error: Error): void {
    if (this.#state !== 'sent' || this.isWatch) {
      this.fail(error);
      return;
    }
    clearTimeout(this.#timer);
    if (this.#isAbandoned) return;
    this.#isAbandoned = true;
    this.#handler.onResponseError?.(this, error);
  }

  /** Breaks the connection. */
  fail(error: Error): void {
    if (this.#state === 'ended') return;
    this.#end();
    if (!this.#isAbandoned) this.#handler.onResponseError?.(this, error);
  }

  cut(): void {
    this.fail(Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' }));
  }

  abandon(): void {
    this.#isAbandoned = true;
    this.#hasCrashed = true;
    if (this.#state !== 'sent' || this.isWatch) this.#end();
  }

  abort(reason: Error): void {
    this.aborted = true;
    this.reason = reason;
    this.#giveUp(reason);
  }

  pause(): void {
    this.paused = true;
  }

  resume(): void {
    this.paused = false;
  }

  #process(): void {
    const { revision } = this.#server;
    this.#response = this.#server.handle(this.#request);
    if (this.#hasCrashed && this.#server.revision > revision) this.#wroteLate();
    this.#state = 'processed';
    if (this.#isAbandoned) this.#end();
  }

  #respond(): void {
    const response = this.#response;
    clearTimeout(this.#timer);
    if (response === undefined) return;
    if (response instanceof SimulatedWatch) {
      this.#state = 'streaming';
      this.#timer = setTimeout(() => this.#complete(), response.timeoutSeconds * 1000);
      this.#handler.onResponseStart?.(this, 200, { 'content-type': 'application/json' }, 'OK');
      return;
    }
    const seconds = (response.body as Status).details?.retryAfterSeconds;
    const headers = { 'content-type': 'application/json', ...(seconds && { 'retry-after': String(seconds) }) };
    if (response.code < 300) this.#responded(this.process, this.#request.method, response.body);
    this.#handler.onResponseStart?.(this, response.code, headers, '');
    this.#handler.onResponseData?.(this, Buffer.from(JSON.stringify(response.body)));
    this.#complete();
  }

  bookmark(): void {
    if (this.#state !== 'streaming' || this.paused || !(this.#response instanceof SimulatedWatch)) return;
    if (this.#response.hasNext || !this.#request.path.includes('allowWatchBookmarks=true')) return;
    this.#handler.onResponseData?.(this, Buffer.from(`${JSON.stringify(this.#response.bookmark())}\n`));
  }

  #deliverEvent(): void {
    const event = this.#response instanceof SimulatedWatch ? this.#response.next() : undefined;
    if (event === undefined) return;
    this.#handler.onResponseData?.(this, Buffer.from(`${JSON.stringify(event)}\n`));
    if (event.type === 'ERROR') this.#complete();
  }

  #complete(): void {
    if (this.#state === 'ended') return;
    this.#end();
    this.#handler.onResponseEnd?.(this, {});
  }

  #end(): void {
    this.#state = 'ended';
    clearTimeout(this.#timer);
    this.#forget();
  }
}

function requestOf({ method, path, headers, body }: Dispatcher.DispatchOptions): SimulatedRequest {
  return { method, path, headers: headersOf(headers), body: typeof body === 'string' ? body : undefined };
}

/** The transport sends its headers as a flat list. */
function headersOf(headers: Dispatcher.DispatchOptions['headers']): Readonly<Record<string, string>> {
  const result: Record<string, string> = {};
  if (Array.isArray(headers)) {
    for (let index = 0; index < headers.length; index += 2)
      result[String(headers[index]).toLowerCase()] = String(headers[index + 1]);
  } else if (isObject(headers)) {
    for (const [name, value] of Object.entries(headers)) result[name.toLowerCase()] = String(value);
  }
  return result;
}
