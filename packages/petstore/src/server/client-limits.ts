import { constants, type Http2SecureServer, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { Code, ConnectError } from '@connectrpc/connect';
import { FairShares, type Share } from './fair-shares.ts';
import { FairTurns } from './fair-turns.ts';

/**
 * The maximum size of a message, in bytes. Parsing blocks all other requests, and empty pets take 40 times their size
 * in memory. No Pet is larger, because the operator limits the name.
 */
export const maxMessageBytes = 256 * 1024;

/** The maximum number of connections of all clients. */
const maxConnections = 128;

/** The maximum number of concurrent requests on one connection. A client sends more when these have ended. */
export const maxStreams = 100;

/** The memory for the requests in flight of all clients, in bytes. */
const maxRequestBytes = 24 * 1024 * 1024;

/** The memory of a request in addition to its body: headers, objects, and what HTTP/2's flow control admits. */
const bytesPerRequest = 64 * 1024;

/**
 * Each part counts at least this many bytes. Even a part of one byte needs objects, and Connect iterates over all parts
 * whenever one arrives.
 */
const bytesPerPart = 4096;

/**
 * Limits what all clients together can hold, and alternates between clients. See {@link FairShares} and
 * {@link FairTurns}.
 */
export class ClientLimits {
  readonly #requests = new FairShares(maxRequestBytes);
  readonly #turns = new FairTurns();
  readonly #shares = new WeakMap<ServerHttp2Stream, Share>();

  constructor(server: Http2Server | Http2SecureServer) {
    const connections = new FairShares(maxConnections);
    server.on('connection', (socket: Socket) => {
      const share = connections.take({ client: addressOf(socket), revoke: () => socket.destroy() }, 1);
      socket.once('close', () => share[Symbol.dispose]());
    });
    // This listener runs before the one that handles the request. It also receives streams that are not requests for
    // the handler, such as CONNECT.
    server.prependListener('stream', (stream: ServerHttp2Stream) => {
      const revoke = (): void => {
        stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
        // If the client does not read, the stream would stay open.
        stream.destroy();
      };
      const share = this.#requests.take({ client: addressOf(stream.session?.socket), revoke }, bytesPerRequest);
      this.#shares.set(stream, share);
      stream.once('close', () => share[Symbol.dispose]());
    });
  }

  /**
   * Counts memory for a part of a request's body, and waits for the client's turn. After the last part, the caller
   * parses and executes the request in the same turn.
   *
   * @throws ConnectError if the request was cancelled, for example because its client holds too much.
   */
  async nextPart(stream: ServerHttp2Stream, part: Buffer, isFirst: boolean): Promise<void> {
    // Connect allocates the whole message when the message's length arrives, in bytes 1 to 4.
    const announced = isFirst && part.length >= 5 ? part.readUInt32BE(1) : maxMessageBytes;
    const memory = Math.max(part.length, bytesPerPart) + (isFirst ? Math.min(announced, maxMessageBytes) : 0);
    this.#shares.get(stream)?.grow(memory);
    await this.#turns.take(addressOf(stream.session?.socket));
    if (stream.closed) throw new ConnectError('the request was cancelled', Code.Canceled);
  }
}

/** Clients are distinguished by their addresses. A socket that was closed in the meantime has no address. */
export const addressOf = (socket: Pick<Socket, 'remoteAddress'> | undefined): string => socket?.remoteAddress ?? '';
