import type { Gate } from '../../../src/runtime/client/index.ts';
import { GrpcProxy } from '../../../testkit/grpc-proxy.ts';
import { TcpProxy } from '../../../testkit/tcp-proxy.ts';

/** The messages of PostgreSQL's protocol that begin a statement: Query, Parse and Bind. */
const statementMessages = ['Q', 'P', 'B'];

/** One operator's way to a system outside of the cluster. It notices requests that the operator sends after its gate has closed. */
export class FencedSystem {
  readonly port: number;
  readonly #proxy: TcpProxy | GrpcProxy;
  #late = 0;

  private constructor(proxy: TcpProxy | GrpcProxy) {
    this.port = proxy.port;
    this.#proxy = proxy;
  }

  static async database(port: number, gate: Gate): Promise<FencedSystem> {
    const proxy = await TcpProxy.start(port);
    const fenced = new FencedSystem(proxy);
    proxy.onSent((data) => {
      if (gate.signal.aborted && statementMessages.includes(String.fromCharCode(data[0] ?? 0))) fenced.#late += 1;
    });
    return fenced;
  }

  static async petStore(port: number, gate: Gate): Promise<FencedSystem> {
    const proxy = await GrpcProxy.start(port);
    const fenced = new FencedSystem(proxy);
    proxy.onCall = () => {
      if (gate.signal.aborted) fenced.#late += 1;
    };
    return fenced;
  }

  /** Returns a function that closes the connections and the proxy. @throws Error if a request came too late */
  checkedClose(close: () => Promise<void>): () => Promise<void> {
    return async () => {
      await close();
      await this.#proxy[Symbol.asyncDispose]();
      if (this.#late > 0) throw new Error(`${this.#late} requests after the gate had closed`);
    };
  }
}
