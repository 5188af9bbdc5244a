import {
  type Condition,
  EventRecorder,
  type ObjectKey,
  type ReconcileContext,
  type Result,
} from '@echoperator/runtime';
import { HttpClient } from '../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../packages/runtime/src/client/transport.ts';
import { RecordingLog } from '../../../testkit/recording-log.ts';
import { ScriptedServer } from './scripted-server.ts';

const eventsPath = '/apis/events.k8s.io/v1/namespaces/default/events';

/** A status that was written. */
export interface Report<Status = Record<string, unknown>> {
  /** Of its first condition. */
  readonly reason: string;
  readonly message: string;
  readonly status: Status;
}

/** What a reconciler is tried against: an API server that does what the test says, and what the reconciler has of it. */
export class ReconcilerWorld {
  readonly server: ScriptedServer;
  readonly client: HttpClient;
  readonly log = new RecordingLog();
  readonly events: EventRecorder;
  readonly #transport: Transport;

  private constructor(server: ScriptedServer) {
    this.server = server;
    this.#transport = new Transport(server.connection, { userAgent: 'test/1' });
    this.client = new HttpClient(this.#transport, 'tester');
    this.events = new EventRecorder({
      client: this.client,
      controller: 'test.example/operator',
      instance: 'pod-1',
      log: this.log,
    });
  }

  static async start(): Promise<ReconcilerWorld> {
    return new ReconcilerWorld(await ScriptedServer.start());
  }

  async close(): Promise<void> {
    await this.#transport.close();
    await this.server.close();
  }

  /** Begins to reconcile; a failure is its outcome. */
  reconcile(
    reconciler: { reconcile(key: ObjectKey, context: ReconcileContext): Promise<Result> },
    key: ObjectKey,
  ): Promise<Result | unknown> {
    const { client, log } = this;
    const { signal } = new AbortController();
    return reconciler.reconcile(key, { client, signal, log }).catch((error: unknown) => error);
  }

  /** The status that is written next to this path, which is accepted. */
  async reported<Status>(path: string, accepted: object): Promise<Report<Status>> {
    const request = await this.server.next({ method: 'PATCH', path });
    request.json(200, accepted);
    const { status } = request.body as { status: Status & { conditions?: Condition[] } };
    const { reason = '', message = '' } = status.conditions?.[0] ?? {};
    return { reason, message, status };
  }

  /** The type and the reason of the Event that is written next, which is accepted. */
  async noted(): Promise<string> {
    const request = await this.server.next({ method: 'POST', path: eventsPath });
    request.json(201, {});
    const { type, reason } = request.body as { type: string; reason: string };
    return `${type} ${reason}`;
  }
}
