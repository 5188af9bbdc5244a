import { Applier, type EventRecorder, type KubeObject } from '@echoperator/runtime';
import type { Gate } from '@echoperator/runtime/client';
import type { AddOptions, DefinedController } from '../../../packages/runtime/src/controller/define-controller.ts';
import { type Content, Managed } from './managed.ts';

/** Notes Events: `Normal PartCreated`. */
class Notices {
  readonly all: string[] = [];
  readonly record: EventRecorder['record'] = (_, __, { type, reason }) => {
    this.all.push(`${type} ${reason}`);
  };
}

/** A defined controller in a manager, over a scripted API server. */
export class DefinedWorld {
  readonly managed: Managed;
  readonly events = new Notices();
  readonly fence: Gate = { pass: () => {}, signal: new AbortController().signal };

  private constructor(managed: Managed) {
    this.managed = managed;
  }

  static async start(): Promise<DefinedWorld> {
    // A test may leave a request without a response.
    return new DefinedWorld(await Managed.start({ drainTimeoutMs: 10 }));
  }

  /** Adds the controller and runs the manager over what the API server holds. */
  async run<Path extends string>(
    controller: DefinedController,
    contents: Readonly<Record<Path, Content>>,
    options: AddOptions = {},
  ) {
    const { manager, registry } = this.managed;
    const applier = new Applier({ fieldManager: 'tester' });
    const { events, fence } = this;
    controller.add({ manager, applier, events, metrics: { registry }, elector: { fence } }, { workers: 1, ...options });
    this.managed.run();
    return this.managed.sync(contents);
  }

  get server() {
    return this.managed.server;
  }

  /** The reasons that a status write reports next, with the whole status. It is accepted. */
  async reported(path: string, object: KubeObject, resourceVersion = '50') {
    const request = await this.server.next({ method: 'PATCH', path: `${path}/status` });
    const { status } = request.body as {
      readonly status: { readonly conditions?: readonly { readonly reason: string; readonly message: string }[] };
    };
    const { metadata } = object;
    request.json(200, { ...object, metadata: { ...metadata, resourceVersion }, status });
    const [ready] = status.conditions ?? [];
    return {
      reason: ready?.reason,
      message: ready?.message ?? '',
      status: status as Readonly<Record<string, unknown>>,
    };
  }

  close(): Promise<void> {
    return this.managed.close();
  }
}
