import { once } from 'node:events';
import { type AddressInfo, createServer, connect as dial, type Server, type Socket } from 'node:net';
import { resetConnection } from '../src/runtime/testing/reset-connection.ts';

/** Is told of what a client sends, before it is passed on. */
export type Sent = (data: Buffer) => void;

/** Passes on bytes between clients and a server, and cuts or refuses connections when a test says so. */
export class TcpProxy implements AsyncDisposable {
  readonly port: number;
  readonly #server: Server;
  readonly #links = new Set<{ readonly client: Socket; readonly upstream: Socket }>();
  #connections = 0;
  #refusing = false;
  #sent: Sent = () => {};

  private constructor(server: Server, upstreamPort: number) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    server.on('connection', (client) => this.#link(client, upstreamPort));
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

  /** Passes on nothing more to clients, of connections that there are, and says nothing of it. New ones work. */
  mute(): void {
    for (const { client, upstream } of this.#links) {
      upstream.unpipe(client);
      upstream.resume();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    const closed = once(this.#server, 'close');
    this.#server.close();
    await closed;
  }

  #link(client: Socket, port: number): void {
    this.#connections += 1;
    client.on('error', () => {});
    if (this.#refusing) {
      resetConnection(client);
      return;
    }
    const upstream = dial(port, '127.0.0.1');
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
