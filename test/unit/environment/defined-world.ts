import {
  Applier,
  type EventRecorder,
  type Kind,
  type KubeObject,
  type ObjectKey,
  type Result,
} from '@echoperator/runtime';
import type { Delta } from '@echoperator/runtime/cache';
import type { Gate } from '@echoperator/runtime/client';
import { Store } from '../../../packages/runtime/src/cache/store.ts';
import {
  type AddOptions,
  type BareReconciler,
  type DefinedController,
  reconcilerOf,
} from '../../../packages/runtime/src/controller/define-controller.ts';
import { versionedResource } from '../../../packages/runtime/src/kind/kind.ts';
import { type Content, Managed } from './managed.ts';
import { ReconcilerWorld } from './reconciler-world.ts';

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

/** A defined controller without a manager: the test fills the stores. */
export class BareWorld {
  readonly world: ReconcilerWorld;
  /** Set it to replace the state of `setUp`. */
  state: unknown;
  readonly #stores = new Map<string, Store<KubeObject>>();
  readonly #bare: BareReconciler;

  private constructor(world: ReconcilerWorld, controller: DefinedController, events: Pick<EventRecorder, 'record'>) {
    this.world = world;
    this.#bare = reconcilerOf(controller, {
      store: (kind) => this.store(kind),
      indexName: (index) => index,
      applier: new Applier({ fieldManager: 'tester' }),
      events,
      gate: { pass: () => {}, signal: new AbortController().signal },
      log: world.log,
      state: () => this.state,
    });
  }

  /** @param events default: they are written to the API server. */
  static async start(controller: DefinedController, events?: Pick<EventRecorder, 'record'>): Promise<BareWorld> {
    const world = await ReconcilerWorld.start();
    return new BareWorld(world, controller, events ?? world.events);
  }

  /** The store of a kind, which begins empty. */
  store<C extends KubeObject>(kind: Kind<C>): Store<C> {
    const resource = versionedResource(kind);
    const store = this.#stores.get(resource) ?? new Store<KubeObject>({ kind });
    this.#stores.set(resource, store);
    // The key determines the kind, and so the type.
    return store as unknown as Store<C>;
  }

  /** Begins to reconcile; a failure is its outcome. */
  reconcile(key: ObjectKey): Promise<Result | unknown> {
    return this.world.reconcile(this.#bare, key);
  }

  keysOfChangedChild<C extends KubeObject>(kind: Kind<C>, delta: Delta<C>): readonly ObjectKey[] {
    return this.#bare.keysOfChangedChild(kind, delta);
  }

  close(): Promise<void> {
    return this.world.close();
  }
}
