import { HttpClient } from '../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../packages/runtime/src/client/transport.ts';
import { ScriptedServer } from './scripted-server.ts';

/** A client of an API server that does what the test says. */
export class ReconcilerWorld {
  readonly server: ScriptedServer;
  readonly client: HttpClient;
  readonly #transport: Transport;

  private constructor(server: ScriptedServer) {
    this.server = server;
    this.#transport = new Transport(server.connection, { userAgent: 'test/1' });
    this.client = new HttpClient(this.#transport, 'tester');
  }

  static async start(): Promise<ReconcilerWorld> {
    return new ReconcilerWorld(await ScriptedServer.start());
  }

  async close(): Promise<void> {
    await this.#transport.close();
    await this.server.close();
  }
}
