import { setImmediate as tick } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import {
  type CacheObserver,
  type Coverage,
  type Delta,
  type DeltaHandler,
  Store,
  type WatchReplacement,
} from '../../../../src/runtime/cache/index.ts';
import { compareResourceVersions } from '../../../../src/runtime/cache/resource-version.ts';
import { ApiError, type Client, type RequestScope } from '../../../../src/runtime/client/index.ts';
import { Controller } from '../../../../src/runtime/controller/controller.ts';
import type { InformerSource } from '../../../../src/runtime/controller/index.ts';
import type { Predicate } from '../../../../src/runtime/controller/predicate.ts';
import { watches } from '../../../../src/runtime/controller/watch.ts';
import { predicates, requeueAfter } from '../../../../src/runtime/index.ts';
import { type Kind, type KubeObject, keyString, type ObjectKey } from '../../../../src/runtime/kind/index.ts';
import { Metrics } from '../../../../src/runtime/observability/index.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';
import { Part, stored, Widget } from '../../../../testkit/widgets.ts';

const observationTimeoutMs = 5;
/** A key waits no longer than this for a watch that does not come. */
const longestDeferralMs = 30 * observationTimeoutMs;

let version = 100;
const nextVersion = (): string => String(++version);

const namespaces = ['east', 'west'] as const;
type Namespace = (typeof namespaces)[number];

type Outcome = 'done' | 'requeue' | 'fail';
type Parts = 'needed' | 'optional' | 'optional and refused at first';
type PendingEvent = { readonly type: 'set' | 'delete'; readonly object: Widget };

/** The watch of one namespace: it brings an event only when the test says so. */
class NamespaceWatch {
  pending: PendingEvent[] = [];
  reached = String(version);
  /** Brings nothing until it is replaced. */
  isSilent = false;
  /** The server answers 403. */
  isRefused = false;
  refusedAtMs = 0;
}

/** A kind on a server, and an informer of it that is limited to two namespaces. */
class Cached {
  readonly kind: Kind<Widget>;
  readonly isOptional: boolean;
  readonly namespaces = namespaces;
  readonly store = new Store<Widget>();
  /** What the server holds, by namespace and name. */
  readonly objects = new Map<string, Widget>();
  readonly watches: Readonly<Record<Namespace, NamespaceWatch>> = {
    east: new NamespaceWatch(),
    west: new NamespaceWatch(),
  };
  /** Called before each list and refusal, before any handler or observer. */
  onReset: (namespace: Namespace) => void = () => {};
  #handlers: DeltaHandler<Widget>[] = [];
  #observers: CacheObserver[] = [];

  constructor(kind: Kind<Widget>, isOptional: boolean) {
    this.kind = kind;
    this.isOptional = isOptional;
  }

  put(object: Widget): Widget {
    this.objects.set(keyString(object.metadata), object);
    this.#watchOf(object).pending.push({ type: 'set', object });
    return object;
  }

  remove(key: ObjectKey): void {
    const object = this.objects.get(keyString(key));
    if (object === undefined) return;
    this.objects.delete(keyString(key));
    const metadata = { ...object.metadata, resourceVersion: nextVersion() };
    this.#watchOf(object).pending.push({ type: 'delete', object: { ...object, metadata } });
  }

  deliverOne(namespace: Namespace): boolean {
    const watch = this.watches[namespace];
    const event = watch.isSilent || watch.isRefused ? undefined : watch.pending.shift();
    if (event === undefined) return false;
    const { type, object } = event;
    watch.reached = object.metadata.resourceVersion;
    const delta = type === 'set' ? this.store.set(object) : this.store.delete(object);
    if (delta !== undefined) for (const handler of this.#handlers) handler(delta, 'watch');
    for (const { progressed } of this.#observers) progressed(namespace);
    return true;
  }

  list(namespace: Namespace): void {
    const watch = this.watches[namespace];
    if (watch.isRefused) return;
    const startedAtMs = performance.now();
    this.onReset(namespace);
    watch.pending = [];
    watch.reached = String(version);
    const listed = [...this.objects.values()].filter(({ metadata }) => metadata.namespace === namespace);
    const deltas = this.store.replace(listed, { namespace });
    for (const delta of deltas) for (const handler of this.#handlers) handler(delta, 'list');
    for (const observer of this.#observers) observer.listed(namespace, startedAtMs);
    for (const { progressed } of this.#observers) progressed(namespace);
  }

  refuse(namespace: Namespace): void {
    if (!this.watches[namespace].isRefused) this.watches[namespace].refusedAtMs = performance.now();
    this.watches[namespace].isRefused = true;
    if (!this.isOptional) return;
    this.onReset(namespace);
    for (const { reset } of this.#observers) reset(namespace);
  }

  /** The watch goes on where it was. */
  admit(namespace: Namespace): void {
    this.watches[namespace].isRefused = false;
  }

  /** The version of the watch has expired meanwhile. */
  admitAndList(namespace: Namespace): void {
    if (!this.watches[namespace].isRefused) return;
    this.admit(namespace);
    this.list(namespace);
  }

  replaceWatch(namespace: Namespace, { relist }: { readonly relist: boolean }): WatchReplacement {
    const watch = this.watches[namespace];
    if (watch.isRefused) return 'noWatch';
    if (!watch.isSilent && !relist) return 'replaced';
    watch.isSilent = false;
    if (relist) this.list(namespace);
    return 'replaced';
  }

  readonly coverage = (object: KubeObject): Coverage =>
    this.isOptional && this.#watchOf(object).isRefused ? 'unlisted' : 'watched';
  readonly unavailableForMs = (namespace: Namespace): number =>
    this.watches[namespace].isRefused ? performance.now() - this.watches[namespace].refusedAtMs : 0;
  readonly hasReached = (wanted: string, namespace: Namespace): boolean =>
    compareResourceVersions(this.watches[namespace].reached, wanted) >= 0;

  addHandler(handler: DeltaHandler<Widget>): () => void {
    for (const object of this.store.list()) handler({ type: 'added', object }, 'list');
    this.#handlers = [...this.#handlers, handler];
    return () => {};
  }

  observe(observer: CacheObserver): () => void {
    this.#observers = [...this.#observers, observer];
    return () => {};
  }

  #watchOf({ metadata }: KubeObject): NamespaceWatch {
    return this.watches[metadata.namespace as Namespace];
  }
}

interface Write {
  readonly cached: Cached;
  readonly namespace: Namespace;
  readonly version: string;
  readonly atMs: number;
}

/** Widgets that each want a Part in every namespace, a controller of them, and the faults that both may meet. */
class World {
  readonly widgets: Cached;
  readonly parts: Cached;
  readonly violations: string[] = [];
  readonly reconciles = new Map<string, number>();
  /** How many reconciles of a key have a cause, and how many requeues and retries are still to come. */
  readonly #due = new Map<string, { events: number; timers: number }>();
  /** By key: the writes that the caches have to observe before the key is reconciled again. */
  readonly #written = new Map<string, readonly Write[]>();
  /** The writes whose events a controller may ignore, by version: their responses have come, and no list or refusal since. */
  readonly #answered = new Map<string, Write>();
  readonly #outcomes: readonly Outcome[];
  readonly #ignoresOwnWrites: boolean;
  #uids = 0;
  #count = 0;

  constructor(outcomes: readonly Outcome[], isOptional: boolean, ignoresOwnWrites: boolean) {
    this.#outcomes = outcomes;
    this.#ignoresOwnWrites = ignoresOwnWrites;
    this.widgets = new Cached(Widget, isOptional);
    this.parts = new Cached(Part, isOptional);
    for (const cached of [this.widgets, this.parts]) {
      // A list may have hidden a change of each key, and reports the changes that it has found besides.
      cached.onReset = (namespace) => {
        for (const key of keys) this.#causes(key).events = 2;
        for (const [key, writes] of this.#written) {
          this.#written.set(
            key,
            writes.filter((write) => write.cached !== cached || write.namespace !== namespace),
          );
        }
        for (const [answered, write] of this.#answered)
          if (write.cached === cached && write.namespace === namespace) this.#answered.delete(answered);
      };
    }
    for (const { name, namespace } of keys) {
      this.widgets.put(stored(name, nextVersion(), { namespace, generation: 1 }));
    }
    for (const cached of [this.widgets, this.parts]) for (const namespace of namespaces) cached.list(namespace);
    this.widgets.addHandler((delta) => {
      if (this.#matters(delta, predicates.generationChanged)) this.#caused(delta.object.metadata);
    });
    this.parts.addHandler((delta) => {
      if (this.#matters(delta, predicates.deletion)) this.#caused(widgetOf(delta.object));
    });
  }

  /** A controller that ignores its own writes has no predicate. */
  #matters(delta: Delta<Widget>, predicate: Predicate<KubeObject>): boolean {
    if (!this.#ignoresOwnWrites) return predicate(delta);
    const write = this.#answered.get(delta.object.metadata.resourceVersion);
    return write === undefined || delta.type === 'deleted' || isExpired(write);
  }

  change(key: ObjectKey, isSpec: boolean): void {
    const before = this.widgets.objects.get(keyString(key)) as Widget;
    const generation = (before.metadata.generation ?? 0) + (isSpec ? 1 : 0);
    this.widgets.put({ ...before, metadata: { ...before.metadata, generation, resourceVersion: nextVersion() } });
  }

  /** Whether the caches have observed all that reconciles have written, apart from what the server refuses. */
  get isObserved(): boolean {
    return [...this.#written.values()].flat().every((write) => isRefused(write) || isObserved(write));
  }

  /** Whether each Widget has its Parts, apart from Parts that the server refuses to list. */
  get isWhole(): boolean {
    const listed = namespaces.filter((namespace) => !this.parts.watches[namespace].isRefused);
    const wanted = keys.flatMap((each) => listed.map((namespace) => partOf(each, namespace)));
    return wanted.every((part) => this.parts.objects.has(keyString(part)));
  }

  controller(): Controller<Widget> {
    const informers = ((kind: Kind) => (kind === Part ? this.parts : this.widgets)) as unknown as InformerSource;
    return new Controller<Widget>(
      Widget,
      {
        ...(this.#ignoresOwnWrites
          ? { ignoresOwnWrites: true, watches: [watches(Part, (part) => [widgetOf(part)])] }
          : {
              predicate: predicates.generationChanged,
              watches: [watches(Part, (part) => [widgetOf(part)], { predicate: predicates.deletion })],
            }),
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
    this.#begin(key);
    const widget = this.widgets.store.get(key) as Widget;
    const { resourceVersion } = widget.metadata;
    const outcome = this.#outcomes[this.#count++] ?? 'done';
    try {
      for (const namespace of namespaces) await this.#createPart(partOf(key, namespace), client);
      // Each event that comes before its response causes a reconcile, which would otherwise write again.
      if (!this.#ignoresOwnWrites || widget.status?.observedGeneration !== widget.metadata.generation)
        await client.mergeStatus(Widget as never, { ...key, resourceVersion }, {});
      if (outcome === 'fail') throw new Error('it failed');
    } catch (error) {
      this.#causes(key).timers += 1;
      throw error;
    }
    if (outcome === 'done') return { type: 'done' } as const;
    this.#causes(key).timers += 1;
    return requeueAfter(3);
  }

  async #createPart(key: ObjectKey & { readonly namespace: Namespace }, client: Client): Promise<void> {
    if (this.parts.store.get(key) !== undefined) return;
    try {
      await client.create(Part, { metadata: key });
    } catch (error) {
      // A refused cache does not learn that the Part exists.
      if (!this.parts.watches[key.namespace].isRefused) throw error;
    }
  }

  /** Answers some time after it has acted: anything may happen in between. */
  #client({ hook }: RequestScope): Client {
    const request = (
      verb: 'create' | 'patch',
      cached: Cached,
      reconciled: ObjectKey,
      key: ObjectKey,
      act: () => Widget,
    ) =>
      hook({ verb, kind: cached.kind, key, subresource: verb === 'patch' ? 'status' : undefined }, async () => {
        const object = act();
        await tick();
        const namespace = key.namespace as Namespace;
        // The watch of an optional kind that is refused never brings the write: nobody may wait for it.
        if (cached.isOptional && cached.watches[namespace].isRefused) return object;
        const write = { cached, namespace, version: object.metadata.resourceVersion, atMs: performance.now() };
        const name = keyString(reconciled);
        this.#written.set(name, [...(this.#written.get(name) ?? []), write]);
        this.#answered.set(write.version, write);
        return object;
      });
    return {
      create: (_: Kind, { metadata }: KubeObject) =>
        request('create', this.parts, widgetOf({ metadata } as KubeObject), metadata, () => {
          if (this.parts.objects.has(keyString(metadata))) throw new ApiError('POST', 409, { reason: 'AlreadyExists' });
          return this.parts.put(stored(metadata.name, nextVersion(), { ...metadata, uid: String(++this.#uids) }));
        }),
      get: (kind: Kind<Widget>, key: ObjectKey) =>
        hook({ verb: 'get', kind, key }, async () => this.parts.objects.get(keyString(key))),
      mergeStatus: (_: Kind, key: ObjectKey) =>
        request('patch', this.widgets, key, key, () => {
          const before = this.widgets.objects.get(keyString(key)) as Widget;
          const { generation } = before.metadata;
          const metadata = { ...before.metadata, resourceVersion: nextVersion() };
          return this.widgets.put({ ...before, metadata, status: { observedGeneration: generation as number } });
        }),
    } as unknown as Client;
  }

  #begin(key: ObjectKey): void {
    const name = keyString(key);
    this.reconciles.set(name, (this.reconciles.get(name) ?? 0) + 1);
    const due = this.#causes(key);
    if (due.events > 0) due.events -= 1;
    else if (due.timers > 0) due.timers -= 1;
    else this.violations.push(`${name} was reconciled without a cause`);
    for (const write of this.#written.get(name) ?? []) {
      if (!isObserved(write) && !isExpired(write)) {
        this.violations.push(`${name} was reconciled below its write ${write.version} to ${write.namespace}`);
      }
    }
    this.#written.delete(name);
  }

  #caused(key: ObjectKey): void {
    const due = this.#causes(key);
    due.events = Math.max(due.events, 1);
  }

  #causes(key: ObjectKey): { events: number; timers: number } {
    const due = this.#due.get(keyString(key)) ?? { events: 0, timers: 0 };
    this.#due.set(keyString(key), due);
    return due;
  }
}

const isRefused = ({ cached, namespace }: Write): boolean => cached.watches[namespace].isRefused;
const isExpired = ({ atMs }: Write): boolean => performance.now() - atMs >= longestDeferralMs;
const isObserved = ({ cached, namespace, version: wanted }: Write): boolean => cached.hasReached(wanted, namespace);

const keys = namespaces.flatMap((namespace) => ['a', 'b'].map((name) => ({ namespace, name })));
const partOf = (widget: ObjectKey, namespace: Namespace) => ({ namespace, name: `${widget.namespace}.${widget.name}` });
const widgetOf = ({ metadata }: KubeObject): ObjectKey => {
  const [namespace = '', name = ''] = metadata.name.split('.');
  return { namespace, name };
};

const key = fc.constantFrom(...keys);
const namespace = fc.constantFrom(...namespaces);
const which = fc.constantFrom('widgets' as const, 'parts' as const);
const step = fc.oneof(
  fc.record({ type: fc.constantFrom('spec' as const, 'noise' as const), key }),
  { weight: 2, arbitrary: fc.record({ type: fc.constant('remove' as const), key, namespace }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('deliver' as const), which, namespace }) },
  fc.record({ type: fc.constantFrom('list' as const, 'silence' as const), which, namespace }),
  fc.record({ type: fc.constantFrom('refuse' as const, 'admit' as const, 'admitAndList' as const), which, namespace }),
  { weight: 2, arbitrary: fc.record({ type: fc.constant('idle' as const) }) },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

function take(world: World, current: Step): void {
  switch (current.type) {
    case 'idle':
      break;
    case 'spec':
    case 'noise':
      world.change(current.key, current.type === 'spec');
      break;
    case 'remove':
      world.parts.remove(partOf(current.key, current.namespace));
      break;
    case 'deliver':
      world[current.which].deliverOne(current.namespace);
      break;
    case 'silence':
      world[current.which].watches[current.namespace].isSilent = true;
      break;
    case 'list':
    case 'refuse':
    case 'admit':
    case 'admitAndList':
      world[current.which][current.type](current.namespace);
      break;
  }
}

/** The watch of a needed kind is refused for so long that a write's minimum is dropped; then the list no longer has the object. */
const deletedAfterTheMinimumWasDropped: [Step[], Outcome[], Parts, 'admitAndList', false] = [
  [
    { type: 'refuse', which: 'parts', namespace: 'west' },
    { type: 'idle' },
    { type: 'remove', key: { namespace: 'east', name: 'b' }, namespace: 'east' },
    { type: 'deliver', which: 'widgets', namespace: 'east' },
    { type: 'remove', key: { namespace: 'west', name: 'b' }, namespace: 'west' },
    { type: 'deliver', which: 'parts', namespace: 'east' },
  ],
  ['requeue'],
  'needed',
  'admitAndList',
  false,
];

test('every reconcile has a cause and reads the writes of its key, and no key is lost or deferred forever', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 40 }),
      fc.array(fc.constantFrom<Outcome>('done', 'requeue', 'fail'), { maxLength: 20 }),
      fc.constantFrom<Parts>('needed', 'optional', 'optional and refused at first'),
      fc.constantFrom('admit' as const, 'admitAndList' as const),
      fc.boolean(),
      async (steps, outcomes, parts, admit, ignoresOwnWrites) => {
        const world = new World(outcomes, parts !== 'needed', ignoresOwnWrites);
        if (parts === 'optional and refused at first') for (const each of namespaces) world.parts.refuse(each);
        const controller = world.controller();
        const stop = new AbortController();
        const running = controller.run(stop.signal);
        const all = [world.widgets, world.parts].flatMap((cached) => namespaces.map((each) => [cached, each] as const));
        const deliverAll = async (): Promise<void> => {
          for (const [cached, each] of all) while (cached.deliverOne(each)) await tick();
        };
        try {
          for (const current of steps) {
            take(world, current);
            await tick();
            if (current.type === 'idle') for (let turn = 0; turn < 5; turn += 1) await tick();
          }
          await eventually('each silent watch that a write waits for is replaced', async () => {
            await deliverAll();
            return world.isObserved;
          });
          for (const [cached, each] of all) cached.watches[each].isSilent = false;
          // No Widget changes before this has been seen: it would wake a key that was forgotten.
          await eventually('each Widget has its Parts, but for those that the server refuses', async () => {
            await deliverAll();
            return world.isWhole;
          });
          for (const [cached, each] of all) cached[admit](each);
          await eventually('each Widget has all its Parts', async () => {
            await deliverAll();
            return world.isWhole;
          });
          world.parts.refuse('east');
          const before = new Map(world.reconciles);
          for (const each of keys) {
            // Without a predicate, any change of another client counts.
            if (!ignoresOwnWrites) world.parts.remove(partOf(each, 'west'));
            world.change(each, !ignoresOwnWrites);
          }
          await eventually('each key is reconciled though the Parts of a namespace are refused', async () => {
            await deliverAll();
            return keys.map(keyString).every((each) => (world.reconciles.get(each) ?? 0) > (before.get(each) ?? 0));
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
    // A lost key shows itself by a wait of 90 s: no time is left to look for a shorter example.
    { numRuns: 150, endOnFailure: true, examples: [deletedAfterTheMinimumWasDropped] },
  );
});
