import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** How long a connection stays open after the delivery of delayed data, although its sender has closed it. */
const lingerMs = 500;

/**
 * The network between a candidate and the API server: a TCP relay on 127.0.0.1 that can be cut or slowed. Data sent
 * into a cut link arrives when the link is mended, even if its sender is gone, like data that TCP retransmits. So the
 * server may execute a request long after its client has given up.
 */
export class Link implements AsyncDisposable {
  readonly port: number;
  readonly #server: Server;
  readonly #directions = new Set<Direction>();
  /** The delay of all data; infinite while the link is cut. */
  #delayMs = 0;
  #delayedCount = 0;

  private constructor(server: Server, port: number, upstreamPort: number) {
    this.#server = server;
    this.port = port;
    server.on('connection', (client: Socket) => {
      const upstream = connect({ host: '127.0.0.1', port: upstreamPort, noDelay: true });
      this.#relay(client, upstream);
      this.#relay(upstream, client);
    });
  }

  static async to(upstreamPort: number): Promise<Link> {
    const server = createServer({ noDelay: true });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error(`listening on ${address}, not on a port`);
    return new Link(server, address.port, upstreamPort);
  }

  /** The number of delayed pieces of data. */
  get delayedCount(): number {
    return this.#delayedCount;
  }

  cut(): void {
    this.#delayMs = Number.POSITIVE_INFINITY;
  }

  slow(delayMs: number): void {
    this.#delayMs = delayMs;
  }

  /** Ends the fault and delivers delayed data now. */
  mend(): void {
    this.#delayMs = 0;
    for (const direction of this.#directions) direction.passAll();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const direction of this.#directions) direction.destroy();
    await closed;
  }

  #relay(from: Socket, to: Socket): void {
    const direction = new Direction(to);
    this.#directions.add(direction);
    from.on('data', (piece: Buffer) => this.#accept(direction, piece));
    from.on('close', () => this.#accept(direction, 'end'));
    from.on('error', () => {});
    to.on('close', () => this.#directions.delete(direction));
  }

  #accept(direction: Direction, piece: Piece): void {
    if (this.#delayMs > 0 || direction.isHolding) this.#delayedCount += 1;
    direction.accept(piece, this.#delayMs);
  }
}

type Piece = Buffer | 'end';

/** One direction of a connection, with its delayed data. */
class Direction {
  readonly #to: Socket;
  readonly #held: { readonly piece: Piece; readonly dueMs: number }[] = [];

  constructor(to: Socket) {
    this.#to = to;
  }

  get isHolding(): boolean {
    return this.#held.length > 0;
  }

  accept(piece: Piece, delayMs: number): void {
    if (delayMs === 0 && !this.isHolding) {
      this.#pass(piece, 0);
      return;
    }
    this.#held.push({ piece, dueMs: performance.now() + delayMs });
    if (Number.isFinite(delayMs)) setTimeout(() => this.#passDue(), delayMs);
  }

  passAll(): void {
    for (const { piece } of this.#held.splice(0)) this.#pass(piece, lingerMs);
  }

  destroy(): void {
    this.#to.destroy();
  }

  /** Delivers in order: nothing overtakes data that waits for a cut link. */
  #passDue(): void {
    for (let next = this.#held[0]; next !== undefined && next.dueMs <= performance.now() + 1; next = this.#held[0]) {
      this.#held.shift();
      this.#pass(next.piece, lingerMs);
    }
  }

  #pass(piece: Piece, afterMs: number): void {
    if (piece !== 'end') this.#to.write(piece);
    else if (afterMs === 0) this.#to.destroy();
    else setTimeout(() => this.#to.destroy(), afterMs);
  }
}
