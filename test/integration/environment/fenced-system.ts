import type { ExternalHooks } from '@echoperator/testing';
import { GrpcProxy } from '../../../testkit/grpc-proxy.ts';
import { TcpProxy } from '../../../testkit/tcp-proxy.ts';

/** A message Parse of PostgreSQL's protocol with a statement that changes a table. */
const changingStatement = /^P.*\b(INSERT INTO|UPDATE|DELETE FROM) (?:"\w+"\.)?"(\w+)"/s;

const changingCall = /^(Add|Update|Delete)Pets$/;

/** One operator's way to a system outside of the cluster. The kit perturbs its writes. */
export class FencedSystem {
  readonly port: number;
  readonly #proxy: TcpProxy | GrpcProxy;

  private constructor(proxy: TcpProxy | GrpcProxy) {
    this.port = proxy.port;
    this.#proxy = proxy;
  }

  static async database(port: number, external: ExternalHooks): Promise<FencedSystem> {
    const proxy = await TcpProxy.start(port);
    proxy.intercept = (data) => {
      const [, verb, table] = changingStatement.exec(data.toString('latin1')) ?? [];
      return verb === undefined ? undefined : external.write(`${verb} ${table}`);
    };
    return new FencedSystem(proxy);
  }

  static async petStore(port: number, external: ExternalHooks): Promise<FencedSystem> {
    const proxy = await GrpcProxy.start(port);
    proxy.intercept = (method) => (changingCall.test(method) ? external.write(method) : undefined);
    return new FencedSystem(proxy);
  }

  async close(): Promise<void> {
    await this.#proxy[Symbol.asyncDispose]();
  }
}
