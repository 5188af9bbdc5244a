import { Manager } from '@echoperator/runtime';
import { type ManagerOptions, type ManagerRunOptions, Metrics } from '@echoperator/runtime/process';
import { Registry } from 'prom-client';
import { HttpClient } from '../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../packages/runtime/src/client/transport.ts';
import { RecordingLog } from '../../../testkit/recording-log.ts';
import { ScriptedServer, type Stream } from './scripted-server.ts';

/** What a scripted API server holds of a kind when the informers ask. */
export interface Content {
  readonly resourceVersion: string;
  readonly items?: readonly object[];
}

/** A manager over a scripted API server. */
export class Managed {
  readonly server: ScriptedServer;
  readonly log = new RecordingLog();
  readonly registry = new Registry();
  readonly manager: Manager;
  readonly client: HttpClient;
  readonly #transport: Transport;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;

  private constructor(server: ScriptedServer, options: Partial<ManagerOptions>) {
    this.server = server;
    this.#transport = new Transport(server.connection, { userAgent: 'test/1' });
    this.client = new HttpClient(this.#transport, 'tester');
    const metrics = new Metrics(this.registry);
    this.manager = new Manager({ client: this.client, log: this.log, metrics, ...options });
  }

  static async start(options: Partial<ManagerOptions> = {}): Promise<Managed> {
    return new Managed(await ScriptedServer.start(), options);
  }

  /** Begins to run the manager; a failure of the run comes out of {@link stop} or {@link ended}. */
  run(options?: ManagerRunOptions): void {
    this.#running = this.manager.run(this.#stop.signal, options);
    this.#running.catch(() => {});
  }

  /** Answers the lists of these paths and opens their watches. */
  async sync<Path extends string>(contents: Readonly<Record<Path, Content>>): Promise<Record<Path, Stream>> {
    const streams: Partial<Record<Path, Stream>> = {};
    for (const [path, { resourceVersion, items = [] }] of Object.entries<Content>(contents)) {
      (await this.server.next({ path, watch: false })).list(resourceVersion, items);
      streams[path as Path] = (await this.server.next({ path, watch: true })).stream();
    }
    return streams as Record<Path, Stream>;
  }

  /** Asks the manager to stop, without waiting. */
  abort(): void {
    this.#stop.abort();
  }

  get ended(): Promise<void> {
    return this.#running ?? Promise.resolve();
  }

  /** Stops all; what the run threw is the test's own to look at. */
  async close(): Promise<void> {
    this.abort();
    await this.ended.catch(() => {});
    await this.#transport.close();
    await this.server.close();
  }

  /** The value of a counter or gauge, 0 where there is none. */
  async metric(name: string, labels: Readonly<Record<string, string>>): Promise<number> {
    const metric = await this.registry.getSingleMetric(name)?.get();
    const fitting = metric?.values.filter((value) =>
      Object.entries(labels).every(([label, text]) => (value.labels as Record<string, unknown>)[label] === text),
    );
    return fitting?.[0]?.value ?? 0;
  }
}
