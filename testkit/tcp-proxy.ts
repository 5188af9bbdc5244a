import { once } from 'node:events';
import { type AddressInfo, createServer, connect as dial, type Server, type Socket } from 'node:net';
import type { ExternalWrite } from '@echoperator/testing';
import { resetConnection } from '../packages/testing/src/reset-connection.ts';

/** Called with the data that a client sends, before it is forwarded. */
export type OnSent = (data: Buffer) => void;

/** Called with the data that a client sends, before it is forwarded. Undefined: forward it. */
export type Intercept = (data: Buffer) => ExternalWrite | undefined;

/**
 * A proxy that forwards bytes between clients and a server on 127.0.0.1. A test can reset, refuse, hold or mute
 * connections.
 */
export class TcpProxy implements AsyncDisposable {
  readonly port: number;
  readonly #server: Server;
  readonly #upstreamPort: number;
  readonly #links = new Set<{ readonly client: Socket; readonly upstream: Socket }>();
  #connections = 0;
  #refusing = false;
  /** The waiting clients; undefined unless the proxy holds connections. */
  #held: Socket[] | undefined;
  #onSent: OnSent = () => {};
  /** Decides about the data that clients send. Set it before they connect. */
  intercept: Intercept | undefined;

  private constructor(server: Server, upstreamPort: number) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    this.#upstreamPort = upstreamPort;
    server.on('connection', (client) => this.#accept(client));
  }

  static async start(upstreamPort: number, address = '127.0.0.1'): Promise<TcpProxy> {
    const server = createServer();
    await once(server.listen(0, address), 'listening');
    return new TcpProxy(server, upstreamPort);
  }

  /** The number of connections since the start, including refused ones. */
  get connections(): number {
    return this.#connections;
  }

  /** Sets the callback for the data that clients send. */
  onSent(onSent: OnSent): void {
    this.#onSent = onSent;
  }

  /** Resets every connection. */
  cut(): void {
    for (const { client, upstream } of this.#links) {
      resetConnection(client);
      upstream.destroy();
    }
  }

  /** If true, resets all connections and every new one, until it is called with false. */
  refuse(refusing: boolean): void {
    this.#refusing = refusing;
    if (refusing) this.cut();
  }

  /** Resets all connections. Accepts new ones, but forwards nothing until {@link release}. */
  hold(): void {
    this.#held ??= [];
    this.cut();
  }

  /** The number of connections that wait for {@link release}. */
  get heldCount(): number {
    return this.#held?.length ?? 0;
  }

  /** Forwards the waiting connections and all new ones. */
  release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const client of held) if (!client.destroyed) this.#forward(client);
  }

  /** Discards all data from the server on the present connections. New connections work. */
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

  #accept(client: Socket): void {
    this.#connections += 1;
    client.on('error', () => {});
    if (this.#refusing) resetConnection(client);
    else if (this.#held !== undefined) this.#held.push(client);
    else this.#forward(client);
  }

  #forward(client: Socket): void {
    const upstream = dial(this.#upstreamPort, '127.0.0.1');
    const link = { client, upstream };
    this.#links.add(link);
    upstream.on('error', () => resetConnection(client));
    upstream.on('close', () => this.#links.delete(link));
    // What an intercepted client has sent is still forwarded.
    if (this.intercept === undefined) client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
    if (this.intercept !== undefined) {
      forwardIntercepted(client, upstream, this.intercept);
      return;
    }
    client.on('data', (data) => {
      if (typeof data !== 'string') this.#onSent(data);
    });
    client.pipe(upstream);
    upstream.pipe(client);
  }
}

/** Forwards in both directions. The client waits for each response before it sends more. */
function forwardIntercepted(client: Socket, upstream: Socket, intercept: Intercept): void {
  let sent: ExternalWrite | undefined;
  let forwarded = Promise.resolve();
  client.on('data', (data: Buffer) => {
    const write = intercept(data);
    forwarded = forwarded.then(async () => {
      if (write !== undefined && !(await write.isForwarded)) {
        resetConnection(client);
        return;
      }
      sent = write ?? sent;
      upstream.write(data);
    });
  });
  client.on('close', () => void forwarded.then(() => upstream.end()));
  upstream.on('data', (data: Buffer) => {
    const isDelivered = sent?.respond() ?? true;
    sent = undefined;
    if (isDelivered) client.write(data);
    else resetConnection(client);
  });
}
