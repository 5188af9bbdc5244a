import { setImmediate as tick } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Registry } from 'prom-client';
import { type CacheObserver, type DeltaHandler, Store } from '../../../../src/runtime/cache/index.ts';
import { compareResourceVersions } from '../../../../src/runtime/cache/resource-version.ts';
import { ApiError, type Client, type RequestScope } from '../../../../src/runtime/client/index.ts';
import { Controller } from '../../../../src/runtime/controller/controller.ts';
import type { InformerSource } from '../../../../src/runtime/controller/index.ts';
import { owns } from '../../../../src/runtime/controller/watch.ts';
import { predicates, requeueAfter } from '../../../../src/runtime/index.ts';
import { controllerReference, type Kind, type KubeObject, type ObjectKey } from '../../../../src/runtime/kind/index.ts';
import { Metrics } from '../../../../src/runtime/observability/index.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { Part, stored, Widget } from '../../../../testkit/widgets.ts';

const observationTimeoutMs = 10;

let version = 100;
const nextVersion = (): string => String(++version);

/** A kind on a server, and a cache of it whose watch brings events when the test says so. */
class Cached {
  readonly kind: Kind<Widget>;
  readonly namespaces = undefined;
  readonly store = new Store<Widget>();
  readonly objects = new Map<string, Widget>();
  /** Told of each list, before anybody else. */
  onList: () => void = () => {};
  isSilent = false;
  #pending: { readonly type: 'set' | 'delete'; readonly object: Widget }[] = [];
  #reached = String(version);
  #handlers: DeltaHandler<Widget>[] = [];
  #observers: CacheObserver[] = [];

  constructor(kind: Kind<Widget>) {
    this.kind = kind;
  }

  put(object: Widget): Widget {
    this.objects.set(object.metadata.name, object);
    this.#pending.push({ type: 'set', object });
    return object;
  }

  remove(name: string): void {
    const object = this.objects.get(name);
    if (object === undefined) return;
    this.objects.delete(name);
    const metadata = { ...object.metadata, resourceVersion: nextVersion() };
    this.#pending.push({ type: 'delete', object: { ...object, metadata } });
  }

  deliverOne(): boolean {
    const event = this.isSilent ? undefined : this.#pending.shift();
    if (event === undefined) return false;
    const { type, object } = event;
    this.#reached = object.metadata.resourceVersion;
    const delta = type === 'set' ? this.store.set(object) : this.store.delete(object);
    if (delta !== undefined) for (const handler of this.#handlers) handler(delta, 'watch');
    for (const { progressed } of this.#observers) progressed(undefined);
    return true;
  }

  list(): void {
    const startedAtMs = performance.now();
    this.onList();
    this.#pending = [];
    this.#reached = String(version);
    const deltas = this.store.replace([...this.objects.values()]);
    for (const delta of deltas) for (const handler of this.#handlers) handler(delta, 'list');
    for (const { listed } of this.#observers) listed(undefined, startedAtMs);
    for (const { progressed } of this.#observers) progressed(undefined);
  }

  replaceWatch(_: undefined, { relist }: { readonly relist: boolean }): boolean {
    if (!this.isSilent && !relist) return true;
    this.isSilent = false;
    if (relist) this.list();
    return true;
  }

  readonly covers = (): boolean => true;
  readonly hasReached = (wanted: string): boolean => compareResourceVersions(this.#reached, wanted) >= 0;

  addHandler(handler: DeltaHandler<Widget>): () => void {
    for (const object of this.store.list()) handler({ type: 'added', object }, 'list');
    this.#handlers = [...this.#handlers, handler];
    return () => {};
  }

  observe(observer: CacheObserver): () => void {
    this.#observers = [...this.#observers, observer];
    return () => {};
  }
}

/** Widgets that each want a Part of their name, a controller of them, and what may happen to both. */
class World {
  readonly widgets = new Cached(Widget);
  readonly parts = new Cached(Part);
  readonly violations: string[] = [];
  readonly reconciles = new Map<string, number>();
  /** How many reconciles of a key have a cause, and how many requeues and retries are still to come. */
  readonly #due = new Map<string, { events: number; timers: number }>();
  readonly #written = new Map<string, { readonly cached: Cached; readonly version: string }[]>();
  readonly #outcomes: readonly ('done' | 'requeue' | 'fail')[];
  #uids = 0;
  #count = 0;

  constructor(names: readonly string[], outcomes: readonly ('done' | 'requeue' | 'fail')[]) {
    this.#outcomes = outcomes;
    for (const cached of [this.widgets, this.parts]) {
      // A list may have hidden something of each key, and tells of what it has found besides.
      cached.onList = () => {
        for (const name of names) this.#causes(name).events = 2;
        this.#written.clear();
      };
    }
    for (const name of names) this.widgets.put(stored(name, nextVersion(), { generation: 1 }));
    this.widgets.list();
    this.parts.list();
    this.widgets.addHandler((delta) => {
      if (predicates.generationChanged(delta)) this.#caused(delta.object.metadata.name);
    });
    this.parts.addHandler((delta) => {
      if (predicates.deletion(delta)) this.#caused(delta.object.metadata.name);
    });
  }

  change(name: string, isSpec: boolean): void {
    const before = this.widgets.objects.get(name) as Widget;
    const generation = (before.metadata.generation ?? 0) + (isSpec ? 1 : 0);
    this.widgets.put({ ...before, metadata: { ...before.metadata, generation, resourceVersion: nextVersion() } });
  }

  /** Whether the caches have seen all that reconciles have written. */
  get isObserved(): boolean {
    return [...this.#written.values()].flat().every(({ cached, version: wanted }) => cached.hasReached(wanted));
  }

  controller(): Controller<Widget> {
    const informers = ((kind: Kind) => (kind === Part ? this.parts : this.widgets)) as unknown as InformerSource;
    return new Controller<Widget>(
      Widget,
      {
        predicate: predicates.generationChanged,
        watches: [owns(Widget, Part, { predicate: predicates.deletion })],
        reconcile: (key, { client }) => this.#reconcile(key, client),
        observationTimeoutMs,
        retries: { initialBackoffMs: 1, maxBackoffMs: 2, retriesPerSecond: Number.POSITIVE_INFINITY },
      },
      {
        client: { scoped: (scope: RequestScope) => this.#client(scope) } as unknown as Client,
        informers,
        log: new RecordingLog(),
        metrics: new Metrics(new Registry()),
      },
    );
  }

  async #reconcile(key: ObjectKey, client: Client) {
    const { name } = key;
    this.#begin(name);
    const widget = this.widgets.store.get(key) as Widget;
    const { resourceVersion } = widget.metadata;
    const outcome = this.#outcomes[this.#count++] ?? 'done';
    try {
      if (this.parts.store.get(key) === undefined) {
        const ownerReferences = [controllerReference(Widget, widget)];
        await client.create(Part, { metadata: { ...key, ownerReferences } });
      }
      await client.mergeStatus(Widget as never, { ...key, resourceVersion }, {});
      if (outcome === 'fail') throw new Error('it failed');
    } catch (error) {
      this.#causes(name).timers += 1;
      throw error;
    }
    if (outcome === 'done') return { type: 'done' } as const;
    this.#causes(name).timers += 1;
    return requeueAfter(3);
  }

  /** Answers after what it has done, so that anything may happen between. */
  #client({ hook }: RequestScope): Client {
    const request = (cached: Cached, key: ObjectKey, act: () => Widget) =>
      hook({ verb: 'create', kind: cached.kind, key }, async () => {
        const object = act();
        await tick();
        const written = this.#written.get(key.name) ?? [];
        this.#written.set(key.name, [...written, { cached, version: object.metadata.resourceVersion }]);
        return object;
      });
    return {
      create: (_: Kind, { metadata }: KubeObject) =>
        request(this.parts, metadata, () => {
          if (this.parts.objects.has(metadata.name)) throw new ApiError('POST', 409, { reason: 'AlreadyExists' });
          return this.parts.put(stored(metadata.name, nextVersion(), { ...metadata, uid: String(++this.#uids) }));
        }),
      mergeStatus: (_: Kind, key: ObjectKey) =>
        request(this.widgets, key, () => {
          this.change(key.name, false);
          return this.widgets.objects.get(key.name) as Widget;
        }),
    } as unknown as Client;
  }

  #begin(name: string): void {
    this.reconciles.set(name, (this.reconciles.get(name) ?? 0) + 1);
    const due = this.#causes(name);
    if (due.events > 0) due.events -= 1;
    else if (due.timers > 0) due.timers -= 1;
    else this.violations.push(`${name} was reconciled without a cause`);
    for (const { cached, version: wanted } of this.#written.get(name) ?? []) {
      if (!cached.hasReached(wanted)) this.violations.push(`${name} was reconciled below its write ${wanted}`);
    }
    this.#written.delete(name);
  }

  #caused(name: string): void {
    const due = this.#causes(name);
    due.events = Math.max(due.events, 1);
  }

  #causes(name: string): { events: number; timers: number } {
    const due = this.#due.get(name) ?? { events: 0, timers: 0 };
    this.#due.set(name, due);
    return due;
  }
}

const names = ['a', 'b', 'c'];
const name = fc.constantFrom(...names);
const which = fc.constantFrom('widgets' as const, 'parts' as const);
const step = fc.oneof(
  fc.record({ type: fc.constantFrom('spec' as const, 'noise' as const, 'remove' as const), name }),
  { weight: 3, arbitrary: fc.record({ type: fc.constant('deliver' as const), which }) },
  fc.record({ type: fc.constantFrom('list' as const, 'silence' as const), which }),
  { weight: 2, arbitrary: fc.record({ type: fc.constant('idle' as const) }) },
);

test('no reconcile is without a cause or below a write of its key, no key is forgotten or deferred for ever', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 40 }),
      fc.array(fc.constantFrom('done' as const, 'requeue' as const, 'fail' as const), { maxLength: 20 }),
      async (steps, outcomes) => {
        const world = new World(names, outcomes);
        const controller = world.controller();
        const stop = new AbortController();
        const running = controller.run(stop.signal);
        const deliverAll = async (): Promise<void> => {
          for (const cached of [world.widgets, world.parts]) while (cached.deliverOne()) await tick();
        };
        try {
          for (const current of steps) {
            if (current.type === 'spec' || current.type === 'noise')
              world.change(current.name, current.type === 'spec');
            else if (current.type === 'remove') world.parts.remove(current.name);
            else if (current.type === 'deliver') world[current.which].deliverOne();
            else if (current.type === 'list') world[current.which].list();
            else if (current.type === 'silence') world[current.which].isSilent = true;
            await tick();
            if (current.type === 'idle') for (let turn = 0; turn < 5; turn += 1) await tick();
          }
          await eventually('each silent watch that a write waits for is replaced', async () => {
            await deliverAll();
            return world.isObserved;
          });
          for (const cached of [world.widgets, world.parts]) cached.isSilent = false;
          await eventually('each Widget has its Part', async () => {
            await deliverAll();
            return names.every((each) => world.parts.objects.has(each));
          });
          const before = new Map(world.reconciles);
          for (const each of names) world.change(each, true);
          await eventually('each key is still reconciled', async () => {
            await deliverAll();
            return names.every((each) => (world.reconciles.get(each) ?? 0) > (before.get(each) ?? 0));
          });
          expect(world.violations).toEqual([]);
        } finally {
          stop.abort();
          controller.drain();
          await running;
          controller.detach();
        }
      },
    ),
    { numRuns: 60 },
  );
});
