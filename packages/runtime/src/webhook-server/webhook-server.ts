import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Logger } from '../shared/logger.ts';
import { pause } from '../shared/pause.ts';
import { requireTimerMs } from '../shared/timer-ms.ts';
import type { KeyPair } from './pki.ts';

/**
 * Handles the request of an API server.
 *
 * @param body the parsed JSON, of any depth: check it before a recursive function gets it.
 * @param signal aborts when the API server stops waiting for the response. The server then counts the request as ended.
 * @returns the response, which must be JSON.
 * @throws WebhookRequestError for a request that it cannot understand.
 */
export type WebhookHandler = (body: unknown, signal: AbortSignal) => Promise<object>;

/** Makes the server respond to the request with this code and message. The server does not log it. */
export class WebhookRequestError extends Error {
  override readonly name = 'WebhookRequestError';
  readonly code: number;

  constructor(code: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Limits and times of a {@link WebhookServer}. */
export interface WebhookServerLimits {
  /**
   * The most bytes of a body. An AdmissionReview has the object and its previous version, each of which an API server
   * limits to 3 MiB. Default 8 MiB.
   */
  readonly maxBodyBytes?: number;
  /**
   * How many requests are handled at a time. To others it responds with 429, and also while the bodies of all requests
   * have more than four times `maxBodyBytes`. Default 200.
   */
  readonly maxConcurrent?: number;
  /**
   * How long the server continues to serve after it has been asked to stop, in milliseconds: until every API server and
   * node knows that it is no longer ready. Default 5000.
   */
  readonly stopDelayMs?: number;
  /** How long it then waits for requests in flight, in milliseconds. Default 10,000. */
  readonly drainTimeoutMs?: number;
}

/** Options of a {@link WebhookServer}. */
export interface WebhookServerOptions extends WebhookServerLimits {
  /** 0 lets the system choose the port. */
  readonly port: number;
  /** Default: all addresses. */
  readonly host?: string | undefined;
  /** By path. */
  readonly handlers: ReadonlyMap<string, WebhookHandler>;
  readonly log: Logger;
}

/** How long a client may take for a TLS handshake, for the header of a request, and for the whole request. */
const receiveTimeoutMs = 10_000;

/**
 * An API server keeps idle connections for 90 seconds (`IdleConnTimeout` of its HTTP transport). If this server closed
 * one first, a request that was just being sent on it would fail, and API servers do not repeat admission requests.
 */
const idleTimeoutMs = 120_000;

/**
 * How many of the largest bodies the server holds at a time. A request counts as handled only when its body is
 * complete, so that slow clients keep no other out; this limits what they can make the server hold.
 */
const maxLargeBodies = 4;

/** The longest `timeoutSeconds` of a webhook. */
const maxTimeoutSeconds = 30;

/**
 * Serves webhooks with HTTPS (HTTP/1.1, as API servers call them). It listens at once, and is ready when it has a
 * certificate that is valid now.
 *
 * A request that is not one of an API server gets a response of 4xx. An error of a handler gets 500, and never ends the
 * process.
 */
export class WebhookServer {
  readonly #options: WebhookServerOptions;
  readonly #server: Server;
  readonly #log: Logger;
  readonly #maxBodyBytes: number;
  readonly #maxConcurrent: number;
  readonly #stopDelayMs: number;
  readonly #drainTimeoutMs: number;
  #port = 0;
  #inFlight = 0;
  /** Those in flight whose body is complete. */
  #handled = 0;
  /** Of the bodies of all requests in flight. */
  #heldBytes = 0;
  #whenIdle: (() => void) | undefined;
  #isStopping = false;
  #stopped: Promise<void> | undefined;
  #certificate: (KeyPair & { readonly notAfterMs: number }) | undefined;

  private constructor(options: WebhookServerOptions) {
    const { maxBodyBytes = 8 * 2 ** 20, maxConcurrent = 200, stopDelayMs = 5000 } = options;
    this.#options = options;
    this.#log = options.log;
    this.#maxBodyBytes = maxBodyBytes;
    this.#maxConcurrent = maxConcurrent;
    this.#stopDelayMs = stopDelayMs;
    this.#drainTimeoutMs = requireTimerMs('drainTimeoutMs', options.drainTimeoutMs) ?? 10_000;
    this.#server = createServer(
      {
        minVersion: 'TLSv1.2',
        ALPNProtocols: ['http/1.1'],
        handshakeTimeout: receiveTimeoutMs,
        headersTimeout: receiveTimeoutMs,
        requestTimeout: receiveTimeoutMs,
        keepAliveTimeout: idleTimeoutMs,
        connectionsCheckingInterval: 5000,
      },
      (request, response) => void this.#serve(request, response),
    );
    // Errors of a client's connection, such as bytes that are no TLS or no HTTP. Node closes the connection.
    this.#server.on('tlsClientError', () => {});
    this.#server.on('secureConnection', (socket) => socket.on('error', () => {}));
  }

  /** @throws the system's error if the port is in use. */
  static async start(options: WebhookServerOptions): Promise<WebhookServer> {
    const server = new WebhookServer(options);
    await new Promise<void>((resolve, reject) => {
      server.#server.once('error', reject);
      server.#server.listen(options.port, options.host, () => {
        server.#server.off('error', reject);
        server.#port = (server.#server.address() as AddressInfo).port;
        resolve();
      });
    });
    return server;
  }

  /** The port on which it listens, or has listened. */
  get port(): number {
    return this.#port;
  }

  /**
   * Serves new connections with this certificate. Open connections continue with the one that they began with.
   *
   * @throws the error of OpenSSL if the certificate or its key cannot be used; the previous one stays.
   */
  setCertificate(certificate: KeyPair & { readonly notAfterMs: number }): void {
    this.#server.setSecureContext({ cert: certificate.certificate, key: certificate.key, minVersion: 'TLSv1.2' });
    this.#certificate = certificate;
  }

  /** Whether it serves a certificate that has not expired. */
  get hasCertificate(): boolean {
    return this.#certificate !== undefined && this.#certificate.notAfterMs > Date.now();
  }

  /** Why API servers should not call this server now. Undefined if they may. */
  get problem(): string | undefined {
    if (this.#isStopping) return 'stopping';
    return this.hasCertificate ? undefined : 'a certificate of its webhooks';
  }

  /**
   * Stops: is not ready and responds with `Connection: close` from now on, serves until the stop delay has passed, and
   * resolves when the requests in flight have ended or the drain timeout has passed. Idempotent.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.#isStopping = true;
    await pause(this.#stopDelayMs);
    const drained = new AbortController();
    this.#whenIdle = () => drained.abort();
    // The server listens until then, because closing it would also close idle connections, on which an API server may
    // just be sending a request.
    if (this.#inFlight > 0) await pause(this.#drainTimeoutMs, drained.signal);
    if (this.#inFlight > 0) this.#log.warn({ requests: this.#inFlight }, 'webhook requests did not end in time');
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  /** Never rejects. */
  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => {});
    request.on('error', () => {});
    this.#inFlight += 1;
    try {
      this.#send(response, 200, await this.#respond(request, response));
    } catch (error) {
      const isOfRequest = error instanceof WebhookRequestError;
      if (!isOfRequest) this.#log.error({ err: error, path: pathOf(request) }, 'a webhook failed');
      const message = isOfRequest ? error.message : 'the webhook failed: its log says why';
      this.#send(response, isOfRequest ? error.code : 500, { message });
    } finally {
      this.#inFlight -= 1;
      if (this.#inFlight === 0) this.#whenIdle?.();
    }
  }

  async #respond(request: IncomingMessage, response: ServerResponse): Promise<object> {
    const handler = this.#options.handlers.get(pathOf(request));
    if (handler === undefined) throw new WebhookRequestError(404, 'no webhook has this path');
    if (request.method !== 'POST') throw new WebhookRequestError(405, 'a webhook accepts only POST');
    if (!/^application\/json\b/i.test(request.headers['content-type'] ?? ''))
      throw new WebhookRequestError(415, 'a webhook accepts only application/json');
    const chunks: Buffer[] = [];
    try {
      await this.#read(request, chunks);
      if (this.#handled >= this.#maxConcurrent) throw new WebhookRequestError(429, 'too many requests');
      this.#handled += 1;
      try {
        return await this.#handle(handler, parse(Buffer.concat(chunks)), request, response);
      } finally {
        this.#handled -= 1;
      }
    } finally {
      this.#heldBytes -= byteCount(chunks);
    }
  }

  /** Does not wait for a handler that ignores its signal: requests that never end must not keep out all others. */
  async #handle(
    handler: WebhookHandler,
    body: unknown,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<object> {
    const waiting = new AbortController();
    const abandoned = Promise.withResolvers<never>();
    const abandon = (problem: string) => {
      waiting.abort();
      abandoned.reject(new WebhookRequestError(504, problem));
    };
    const timeoutMs = timeoutMsOf(request);
    const timer = setTimeout(() => {
      this.#log.warn({ path: pathOf(request), timeoutMs }, 'a webhook did not respond in time');
      abandon('the webhook did not respond in time');
    }, timeoutMs);
    const onClose = () => abandon('the API server has closed the connection');
    response.once('close', onClose);
    try {
      return await Promise.race([handler(body, waiting.signal), abandoned.promise]);
    } finally {
      clearTimeout(timer);
      response.off('close', onClose);
    }
  }

  /** Adds the parts of the body to `chunks`, and their bytes to those that are held. */
  async #read(request: IncomingMessage, chunks: Buffer[]): Promise<void> {
    const tooLarge = new WebhookRequestError(413, `a body may have at most ${this.#maxBodyBytes} bytes`);
    if (Number(request.headers['content-length'] ?? 0) > this.#maxBodyBytes) throw tooLarge;
    let bytes = 0;
    try {
      for await (const chunk of request.iterator({ destroyOnReturn: false })) {
        const { length } = chunk as Buffer;
        chunks.push(chunk as Buffer);
        bytes += length;
        this.#heldBytes += length;
        if (bytes > this.#maxBodyBytes) throw tooLarge;
        if (this.#heldBytes > this.#maxBodyBytes * maxLargeBodies)
          throw new WebhookRequestError(429, 'the bodies of all requests are too large together');
      }
    } catch (cause) {
      if (cause instanceof WebhookRequestError) throw cause;
      throw new WebhookRequestError(400, 'the body is incomplete', { cause });
    }
  }

  #send(response: ServerResponse, code: number, body: object): void {
    const text = JSON.stringify(body);
    // An unread body, or one of an unknown length, must not be read as the next request.
    if (this.#isStopping || code !== 200) response.setHeader('connection', 'close');
    // With this header an API server repeats the request, as long as its own time limit allows.
    if (code === 429) response.setHeader('retry-after', '1');
    if (code === 405) response.setHeader('allow', 'POST');
    response
      .writeHead(code, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
      .end(text);
  }
}

const byteCount = (chunks: readonly Buffer[]): number => chunks.reduce((sum, { length }) => sum + length, 0);

const pathOf = ({ url = '/' }: IncomingMessage): string => url.split('?', 1)[0] ?? '/';

/** The API server says how long it waits: `?timeout=5s`. */
function timeoutMsOf({ url = '/' }: IncomingMessage): number {
  const seconds = Number(/[?&]timeout=(\d{1,4})s(?:&|$)/.exec(url)?.[1] ?? maxTimeoutSeconds);
  return Math.min(Math.max(seconds, 1), maxTimeoutSeconds) * 1000;
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch (cause) {
    throw new WebhookRequestError(400, 'the body is no JSON', { cause });
  }
}
