import { once } from 'node:events';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { ExternalWrite } from '@echoperator/testing';
import { resetConnection } from '../packages/testing/src/reset-connection.ts';

/**
 * A fault of a call:
 *
 * - `not sent`: the server does not receive it, and the connection breaks;
 * - `answer lost`: the server handles it, and the connection breaks before the client receives the response;
 * - a gRPC error, which the proxy returns without a call of the server.
 */
type Fault = 'not sent' | 'answer lost' | { readonly code: number; readonly message: string };

interface Injected {
  readonly fault: Fault;
  readonly method: string;
  times: number;
}

/** A proxy on 127.0.0.1 for a gRPC server on 127.0.0.1. A test injects and counts faults. */
export class GrpcProxy implements AsyncDisposable {
  readonly port: number;
  readonly #server: Http2Server;
  readonly #upstreamPort: number;
  /** The connections by the client's port. A session's own `socket` cannot be reset. */
  readonly #sockets = new Map<number | undefined, Socket>();
  readonly #faults: Injected[] = [];
  #upstream: ClientHttp2Session | undefined;
  #connections = 0;
  #faultCount = 0;
  /** Called for each call before it is forwarded. */
  onCall: (method: string) => void = () => {};
  /** Decides about each call, which must be unary. Undefined: forward it. */
  intercept: ((method: string) => ExternalWrite | undefined) | undefined;

  private constructor(server: Http2Server, upstreamPort: number) {
    this.#server = server;
    this.#upstreamPort = upstreamPort;
    this.port = (server.address() as AddressInfo).port;
    server.on('connection', (socket: Socket) => {
      const { remotePort } = socket;
      this.#connections += 1;
      this.#sockets.set(remotePort, socket);
      socket.on('close', () => this.#sockets.delete(remotePort));
      socket.on('error', () => {});
    });
    server.on('sessionError', () => {});
    server.on('stream', (stream, headers) => this.#forward(stream as ServerHttp2Stream, headers));
  }

  static async start(upstreamPort: number): Promise<GrpcProxy> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new GrpcProxy(server, upstreamPort);
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** The number of connections since the start, including closed ones. */
  get connections(): number {
    return this.#connections;
  }

  /** The number of faults that calls had since the start. */
  get faultCount(): number {
    return this.#faultCount;
  }

  /** Injects a fault into the next calls of a method. @param times Infinity: until {@link clear} */
  inject(fault: Fault, method: string, times = 1): void {
    this.#faults.push({ fault, method, times });
  }

  /** Removes the injected faults. */
  clear(): void {
    this.#faults.length = 0;
  }

  /** Resets all connections with the calls in flight. */
  cut(): void {
    for (const socket of this.#sockets.values()) resetConnection(socket);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.cut();
    this.#upstream?.destroy();
    await closed;
  }

  #forward(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const method = String(headers[':path']).split('/').at(-1) ?? '';
    stream.on('error', () => {});
    this.onCall(method);
    if (this.intercept !== undefined) {
      this.#forwardIntercepted(stream, headers, () => this.intercept?.(method)).catch(() => this.#break(stream));
      return;
    }
    const fault = this.#takeFault(method);
    if (fault === 'not sent') {
      this.#break(stream);
      return;
    }
    if (typeof fault === 'object') {
      const { code, message } = fault;
      const answer = {
        ':status': 200,
        'content-type': 'application/grpc',
        'grpc-status': code,
        'grpc-message': message,
      };
      stream.respond(answer, { endStream: true });
      return;
    }
    const upstream = this.#upstreamSession().request(headers);
    stream.pipe(upstream);
    this.#relay(stream, upstream, fault);
  }

  /** Intercepts the call when the client has sent it completely. */
  async #forwardIntercepted(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    intercept: () => ExternalWrite | undefined,
  ): Promise<void> {
    const body = await buffer(stream);
    const write = intercept();
    if (write !== undefined && !(await write.isForwarded)) {
      this.#break(stream);
      return;
    }
    const upstream = this.#upstreamSession().request(headers);
    upstream.end(body);
    if (write === undefined) {
      this.#relay(stream, upstream, undefined);
      return;
    }
    let [answer, trailers]: IncomingHttpHeaders[] = [];
    upstream.on('response', (received) => {
      answer = received;
    });
    upstream.on('trailers', (received) => {
      trailers = received;
    });
    const answerBody = await buffer(upstream);
    if (!write.respond()) {
      this.#break(stream);
      return;
    }
    if (stream.destroyed) return;
    stream.on('wantTrailers', () => stream.sendTrailers(trailers ?? {}));
    stream.respond(answer, { waitForTrailers: trailers !== undefined });
    stream.end(answerBody);
  }

  /** Forwards the response. If the client's call ends, the call to the server ends too. */
  #relay(stream: ServerHttp2Stream, upstream: ClientHttp2Stream, fault: Fault | undefined): void {
    stream.on('close', () => upstream.close(constants.NGHTTP2_CANCEL));
    let hasEnded = false;
    upstream.on('end', () => {
      hasEnded = true;
    });
    upstream.on('error', () => {});
    upstream.on('close', () => {
      if (!hasEnded && !stream.closed) this.#break(stream);
    });
    upstream.on('response', (answer, flags) => {
      if (fault === 'answer lost') {
        upstream.resume();
        upstream.on('end', () => this.#break(stream));
        return;
      }
      if (stream.destroyed) return;
      if ((flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0) {
        hasEnded = true;
        upstream.resume();
        stream.respond(answer, { endStream: true });
        return;
      }
      let trailers: IncomingHttpHeaders = {};
      upstream.on('trailers', (received) => {
        trailers = received;
      });
      stream.respond(answer, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers(trailers));
      upstream.pipe(stream);
    });
  }

  #takeFault(method: string): Fault | undefined {
    const injected = this.#faults.find((each) => each.method === method && each.times > 0);
    if (injected === undefined) return undefined;
    injected.times -= 1;
    this.#faultCount += 1;
    return injected.fault;
  }

  #break(stream: ServerHttp2Stream): void {
    const socket = this.#sockets.get(stream.session?.socket.remotePort);
    if (socket !== undefined) resetConnection(socket);
  }

  #upstreamSession(): ClientHttp2Session {
    if (this.#upstream !== undefined && !this.#upstream.destroyed && !this.#upstream.closed) return this.#upstream;
    const session = connect(`http://127.0.0.1:${this.#upstreamPort}`);
    session.on('error', () => {});
    this.#upstream = session;
    return session;
  }
}
