import { once } from 'node:events';
import {
  type ClientHttp2Session,
  connect,
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { resetConnection } from '../src/runtime/testing/reset-connection.ts';

/**
 * What happens to a call: it never arrives, or it is carried out and its answer is lost, and its connection breaks in both; or
 * it is not carried out, and answered with an error of gRPC.
 */
type Fault = 'not sent' | 'answer lost' | { readonly code: number; readonly message: string };

interface Injected {
  readonly fault: Fault;
  readonly method: string;
  times: number;
}

/** A proxy on 127.0.0.1 before a gRPC server, whose faults a test switches on and counts. */
export class GrpcProxy implements AsyncDisposable {
  readonly port: number;
  readonly #server: Http2Server;
  readonly #upstreamPort: number;
  /** The connections by the client's port: of a session's own socket nobody else may do anything. */
  readonly #sockets = new Map<number | undefined, Socket>();
  readonly #faults: Injected[] = [];
  #upstream: ClientHttp2Session | undefined;
  #connections = 0;
  #struck = 0;
  /** Is told of each call before it is passed on. */
  onCall: (method: string) => void = () => {};

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

  static async to(upstreamPort: number): Promise<GrpcProxy> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new GrpcProxy(server, upstreamPort);
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** How many connections there were. */
  get connections(): number {
    return this.#connections;
  }

  /** How many calls were struck by a fault. */
  get struck(): number {
    return this.#struck;
  }

  /** Strikes the next calls of a method, so many times; Infinity: until {@link clear}. */
  inject(fault: Fault, method: string, times = 1): void {
    this.#faults.push({ fault, method, times });
  }

  /** What was injected and has not happened yet does not happen any more. */
  clear(): void {
    this.#faults.length = 0;
  }

  /** Breaks every connection, and what is under way on it. */
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
    const fault = this.#due(method);
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
    const upstream = this.#connected().request(headers);
    stream.pipe(upstream);
    stream.on('close', () => upstream.close(constants.NGHTTP2_CANCEL));
    let isWhole = false;
    upstream.on('end', () => {
      isWhole = true;
    });
    upstream.on('error', () => {});
    upstream.on('close', () => {
      if (!isWhole && !stream.closed) this.#break(stream);
    });
    upstream.on('response', (answer, flags) => {
      if (fault === 'answer lost') {
        upstream.resume();
        upstream.on('end', () => this.#break(stream));
        return;
      }
      if (stream.destroyed) return;
      if ((flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0) {
        isWhole = true;
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

  #due(method: string): Fault | undefined {
    const injected = this.#faults.find((each) => each.method === method && each.times > 0);
    if (injected === undefined) return undefined;
    injected.times -= 1;
    this.#struck += 1;
    return injected.fault;
  }

  #break(stream: ServerHttp2Stream): void {
    const socket = this.#sockets.get(stream.session?.socket.remotePort);
    if (socket !== undefined) resetConnection(socket);
  }

  #connected(): ClientHttp2Session {
    if (this.#upstream !== undefined && !this.#upstream.destroyed && !this.#upstream.closed) return this.#upstream;
    const session = connect(`http://127.0.0.1:${this.#upstreamPort}`);
    session.on('error', () => {});
    this.#upstream = session;
    return session;
  }
}
