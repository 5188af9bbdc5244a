import { once } from 'node:events';
import { type AddressInfo, createServer, connect as dial, type Server, type Socket } from 'node:net';
import { resetConnection } from '../src/runtime/testing/reset-connection.ts';

/** Is told of what a client sends, before it is passed on. */
export type Sent = (data: Buffer) => void;

/** Passes on bytes between clients and a server, and cuts or refuses connections when a test says so. */
export class TcpProxy implements AsyncDisposable {
  readonly port: number;
  readonly #server: Server;
  readonly #upstreamPort: number;
  readonly #links = new Set<{ readonly client: Socket; readonly upstream: Socket }>();
  #connections = 0;
  #refusing = false;
  /** The clients that wait to be let through; undefined while all are. */
  #held: Socket[] | undefined;
  #sent: Sent = () => {};

  private constructor(server: Server, upstreamPort: number) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    this.#upstreamPort = upstreamPort;
    server.on('connection', (client) => this.#taken(client));
  }

  static async start(upstreamPort: number, address = '127.0.0.1'): Promise<TcpProxy> {
    const server = createServer();
    await once(server.listen(0, address), 'listening');
    return new TcpProxy(server, upstreamPort);
  }

  /** How many connections were asked for since it began. */
  get connections(): number {
    return this.#connections;
  }

  /** Calls back with all that clients send. */
  onSent(sent: Sent): void {
    this.#sent = sent;
  }

  /** Resets every connection. */
  cut(): void {
    for (const { client, upstream } of this.#links) {
      resetConnection(client);
      upstream.destroy();
    }
  }

  /** Resets every connection, and each that comes, until it is told otherwise. */
  refuse(refusing: boolean): void {
    this.#refusing = refusing;
    if (refusing) this.cut();
  }

  /** Resets every connection; those that come are taken and kept waiting until {@link release}. */
  hold(): void {
    this.#held ??= [];
    this.cut();
  }

  /** How many connections wait. */
  get held(): number {
    return this.#held?.length ?? 0;
  }

  /** Lets through who waits, and whoever comes. */
  release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const client of held) if (!client.destroyed) this.#pass(client);
  }

  /** Passes on nothing more to clients, of connections that there are, and says nothing of it. New ones work. */
  mute(): void {
    for (const { client, upstream } of this.#links) {
      upstream.unpipe(client);
      upstream.resume();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    for (const client of this.#held ?? []) resetConnection(client);
    const closed = once(this.#server, 'close');
    this.#server.close();
    await closed;
  }

  #taken(client: Socket): void {
    this.#connections += 1;
    client.on('error', () => {});
    if (this.#refusing) resetConnection(client);
    else if (this.#held !== undefined) this.#held.push(client);
    else this.#pass(client);
  }

  #pass(client: Socket): void {
    const upstream = dial(this.#upstreamPort, '127.0.0.1');
    const link = { client, upstream };
    this.#links.add(link);
    upstream.on('error', () => resetConnection(client));
    client.on('close', () => {
      this.#links.delete(link);
      upstream.destroy();
    });
    upstream.on('close', () => client.destroy());
    client.on('data', (data) => {
      if (typeof data !== 'string') this.#sent(data);
    });
    client.pipe(upstream);
    upstream.pipe(client);
  }
}
