import { setTimeout as delay, setImmediate as tick } from 'node:timers/promises';
import { done, type Kind, type KubeObject, keyOf, type ObjectKey } from '@echoperator/runtime';
import { type Delta, Informer } from '@echoperator/runtime/cache';
import {
  ApiError,
  type Client,
  type ClientRequest,
  isAlreadyExists,
  type List,
  NoResponseError,
  type RequestScope,
  type WatchEvent,
  type WatchOptions,
} from '@echoperator/runtime/client';
import type { InformerSource } from '@echoperator/runtime/controller';
import { expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import type { AnyInformer } from '../../../../packages/runtime/src/cache/informer.ts';
import { compareResourceVersions } from '../../../../packages/runtime/src/cache/resource-version.ts';
import { getIfPresent } from '../../../../packages/runtime/src/client/get-if-present.ts';
import { Controller } from '../../../../packages/runtime/src/controller/controller.ts';
import { watches } from '../../../../packages/runtime/src/controller/watch.ts';
import { Metrics } from '../../../../packages/runtime/src/observability/metrics.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';
import { Part, stored, Widget } from '../../../../testkit/widgets.ts';

/** `OWN_WRITES_RUNS=100000` tries more histories. */
const numRuns = Number(process.env.OWN_WRITES_RUNS ?? 300);

/** A Widget asks for a size. A Part has that size, and anybody may count its `out` up. */
type Thing = KubeObject & {
  readonly spec?: { readonly size: number };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly out?: number;
    readonly seen?: number;
    readonly stamp?: number;
  };
};
type Name = 'a' | 'b';
const names: readonly Name[] = ['a', 'b'];

/** Of a commit: whose reconcile made it. Undefined: another client. `isLate`: that reconcile had given up before. */
type Author = { readonly controller: string; readonly name: string; readonly isLate?: boolean } | undefined;

const isAtLeast = (version: string, wanted: string): boolean => compareResourceVersions(version, wanted) >= 0;

/** A kind on the API server. */
class Served {
  readonly kind: Kind;
  readonly objects = new Map<string, Thing>();
  readonly events: WatchEvent<Thing>[] = [];
  /** How many events the watch has delivered. */
  position = 0;
  /** Ends the watch, so that the reflector lists. */
  isExpired = false;
  /** The response to a list that is on its way. */
  list: (() => void) | undefined;
  wake: () => void = () => {};

  constructor(kind: Kind) {
    this.kind = kind;
  }
}

/** A response on its way. */
interface Response {
  readonly author: NonNullable<Author>;
  readonly arrive: () => void;
}

class World {
  readonly widgets = new Served(Widget);
  readonly parts = new Served(Part);
  readonly responses: Response[] = [];
  /** Requests that take effect after their client has given up. */
  readonly late: (() => void)[] = [];
  readonly violations: string[] = [];
  reconciles = 0;
  /** How many retries are due: their timers are real. */
  retries = 0;
  readonly #log = new RecordingLog();
  readonly #metrics = new Metrics(new Registry());
  readonly #stop = new AbortController();
  readonly #informers = new Map<Kind, Informer<Thing>>();
  readonly #controllers: Controller<Thing>[] = [];
  readonly #running: Promise<unknown>[] = [];
  readonly #faults: Fault[];
  #version = 100;
  #uids = 0;
  #stamps = 0;
  /** By controller and name: how many requests of its reconciles have no response. */
  readonly #inFlight = new Map<string, number>();
  /** By kind and name: each commit, with its author. */
  readonly #commits: {
    readonly served: Served;
    readonly name: string;
    readonly uid: string;
    readonly type: string;
    readonly version: string;
    readonly author: Author;
  }[] = [];
  /** By controller and name: what the stores showed at the start of the last reconcile. */
  readonly #lastStart = new Map<string, { readonly widget: Thing | undefined; readonly part: Thing | undefined }>();
  /** By controller, name and kind: the newest version that the response to a write has shown. */
  readonly #responded = new Map<string, string>();
  readonly #mirrors = new Map<Served, Map<string, Thing>>();

  constructor(faults: readonly Fault[]) {
    this.#faults = [...faults];
    for (const served of [this.widgets, this.parts]) this.#startInformer(served);
    // Without any predicate.
    this.#startController('maker', (key, client) => this.#make(key, client));
    this.#startController('observer', (key, client) => this.#observe(key, client));
  }

  #startInformer(served: Served): void {
    const client = {
      list: () => this.#list(served),
      watchBatches: (_: Kind, options: WatchOptions) => this.#watch(served, options),
    } as unknown as Client;
    const backoff = { initialMs: 0.01, maxMs: 0.01 };
    const options = {
      client,
      kind: served.kind as Kind<Thing>,
      log: this.#log,
      listing: 'paged',
      backoff,
      freeze: true,
    } as const;
    const informer = new Informer<Thing>(options);
    this.#informers.set(served.kind, informer);
    const mirror = new Map<string, Thing>();
    this.#mirrors.set(served, mirror);
    informer.addHandler((delta) => this.#mirror(mirror, delta));
    this.#running.push(informer.run(this.#stop.signal));
  }

  #mirror(mirror: Map<string, Thing>, { type, object }: Delta<Thing>): void {
    const { name, uid, resourceVersion } = object.metadata;
    const known = mirror.get(name);
    if ((known === undefined) !== (type === 'added')) this.violations.push(`${name} is ${type} wrongly`);
    if (type !== 'added' && known?.metadata.uid !== uid) this.violations.push(`${name} has another uid`);
    if (type === 'modified' && !isAtLeast(resourceVersion, known?.metadata.resourceVersion ?? '0'))
      this.violations.push(`${name} goes back`);
    if (type === 'deleted') mirror.delete(name);
    else mirror.set(name, object);
  }

  #startController(name: string, reconcile: (key: ObjectKey, client: Client) => Promise<void>): void {
    const controller: Controller<Thing> = new Controller<Thing>(
      Widget as Kind<Thing>,
      {
        name,
        workers: 2,
        watches: [watches(Part as Kind<Thing>, (part) => [keyOf(part)])],
        retries: { initialBackoffMs: 0.01, maxBackoffMs: 0.01, retriesPerSecond: Number.POSITIVE_INFINITY },
        reconcile: async (key, { client }) => {
          this.#begin(name, key);
          try {
            await reconcile(key, client);
          } catch (error) {
            this.retries += 1;
            throw error;
          }
          return done;
        },
      },
      {
        client: { scoped: (scope: RequestScope) => this.#client(name, scope) } as unknown as Client,
        informers: ((kind: Kind) => this.#informers.get(kind)) as InformerSource,
        informersOf: (kind) => [this.#informers.get(kind) as unknown as AnyInformer],
        log: this.#log,
        metrics: this.#metrics,
      },
    );
    this.#controllers.push(controller);
    this.#running.push(controller.run(this.#stop.signal));
  }

  #storeOf(served: Served) {
    return (this.#informers.get(served.kind) as Informer<Thing>).store;
  }

  #begin(controller: string, key: ObjectKey): void {
    this.reconciles += 1;
    const id = `${controller} ${key.name}`;
    if ((this.#inFlight.get(id) ?? 0) > 0) this.violations.push(`${id} runs while a request has no response`);
    this.#lastStart.set(id, { widget: this.#storeOf(this.widgets).get(key), part: this.#storeOf(this.parts).get(key) });
  }

  /** Keeps a Part of the Widget's size, and says in the status which `out` it has, and when. */
  async #make(key: ObjectKey, client: Client): Promise<void> {
    const widget = this.#storeOf(this.widgets).get(key);
    if (widget === undefined) return;
    const part = this.#storeOf(this.parts).get(key);
    const size = widget.spec?.size ?? 0;
    if (part === undefined) {
      const live = await getIfPresent(client, Widget as Kind<Thing>, key);
      this.#requireShown(this.widgets, key, live);
      if (live?.metadata.uid !== widget.metadata.uid) return;
      const created = await client
        .create(Part as Kind<Thing>, { ...widget, metadata: key, spec: { size } })
        .catch((error: unknown) => {
          // As a reconcile that goes on with what it finds: no retry follows.
          if (size > 1 && isAlreadyExists(error)) return undefined;
          throw error;
        });
      this.#requireShown(this.parts, key, created);
    } else if (part.spec?.size !== size) {
      const { uid } = part.metadata;
      if (size % 3 === 0) {
        await client.delete(Part, key, { uid });
        this.#requireGone(this.parts, key, uid);
        // The deletion enqueues the key, and that reconcile creates the Part.
        return;
      }
      const manifest = { metadata: key, spec: { size } } as Thing;
      this.#requireShown(this.parts, key, await client.apply(Part as Kind<Thing>, manifest, { uid }));
    }
    const out = this.#storeOf(this.parts).get(key)?.status?.out ?? 0;
    const current = this.#storeOf(this.widgets).get(key);
    if (current === undefined) return;
    const { resourceVersion, generation = 0 } = widget.metadata;
    const stamp = ++this.#stamps;
    const written = await client.mergeStatus(
      Widget as Kind<Thing>,
      { ...key, resourceVersion: current.metadata.resourceVersion ?? resourceVersion },
      {
        observedGeneration: generation,
        out,
        stamp,
      },
    );
    this.#requireShown(this.widgets, key, written);
  }

  /**
   * Says in another member of the status, without a precondition, which size it has seen. Does not always wait for the
   * response.
   */
  async #observe(key: ObjectKey, client: Client): Promise<void> {
    const widget = this.#storeOf(this.widgets).get(key);
    if (widget === undefined || widget.status?.seen === widget.spec?.size) return;
    const body = { status: { seen: widget.spec?.size } };
    const written = client.patch(Widget as Kind<Thing>, key, { type: 'merge', body }, { subresource: 'status' });
    if (widget.spec?.size !== 4) return void (await written);
    // As a reconcile that sends several requests and ends with the first that fails.
    written.catch(() => {});
    throw new Error('it does not wait');
  }

  #requireShown(served: Served, key: ObjectKey, object: Thing | undefined): void {
    if (object === undefined) return;
    const held = this.#storeOf(served).get(key);
    const { uid, resourceVersion } = object.metadata;
    if (held !== undefined && isAtLeast(held.metadata.resourceVersion, resourceVersion)) return;
    // A newer event, list or response may have shown that it is gone.
    if (!this.#isDeleted(uid)) this.violations.push(`${key.name} at ${resourceVersion} is not shown`);
  }

  #requireGone(served: Served, key: ObjectKey, uid: string): void {
    if (this.#storeOf(served).get(key)?.metadata.uid === uid)
      this.violations.push(`${key.name} is shown though it is gone`);
  }

  #commit(served: Served, type: 'ADDED' | 'MODIFIED' | 'DELETED', given: Thing, author: Author): Thing {
    const version = String(++this.#version);
    const object = { ...given, metadata: { ...given.metadata, resourceVersion: version } };
    const { name, uid } = object.metadata;
    if (type === 'DELETED') served.objects.delete(name);
    else served.objects.set(name, object);
    served.events.push({ type, object });
    this.#commits.push({ served, name, uid, type, version, author });
    return object;
  }

  readonly #isDeleted = (uid: string): boolean =>
    this.#commits.some((commit) => commit.uid === uid && commit.type === 'DELETED');

  /** What another client does. */
  foreign(
    what: 'spec' | 'count' | 'deletePart' | 'deleteWidget' | 'status' | 'createPart',
    name: Name,
    size: number,
  ): void {
    const widget = this.widgets.objects.get(name);
    const part = this.parts.objects.get(name);
    if (widget === undefined) {
      const metadata = stored(name, '0', { uid: `widget-${++this.#uids}`, generation: 1 }).metadata;
      this.#commit(this.widgets, 'ADDED', { metadata, spec: { size } }, undefined);
    } else if (what === 'spec') {
      const { metadata } = widget;
      const generation = (metadata.generation ?? 0) + 1;
      this.#commit(
        this.widgets,
        'MODIFIED',
        { ...widget, metadata: { ...metadata, generation }, spec: { size } },
        undefined,
      );
    } else if (what === 'status') {
      this.#commit(this.widgets, 'MODIFIED', { ...widget, status: { out: -1, seen: -1 } }, undefined);
    } else if (what === 'deleteWidget') {
      this.#commit(this.widgets, 'DELETED', widget, undefined);
      // As the garbage collector does.
      if (part !== undefined) this.#commit(this.parts, 'DELETED', part, undefined);
    } else if (part === undefined) {
      if (what !== 'createPart') return;
      const metadata = stored(name, '0', { uid: `part-${++this.#uids}` }).metadata;
      this.#commit(this.parts, 'ADDED', { metadata, spec: { size } }, undefined);
    } else if (what === 'count') {
      this.#commit(this.parts, 'MODIFIED', { ...part, status: { out: (part.status?.out ?? 0) + 1 } }, undefined);
    } else if (what === 'deletePart') this.#commit(this.parts, 'DELETED', part, undefined);
  }

  /** The server acts at once, and its response arrives when the test says so. */
  #client(controller: string, scope: RequestScope): Client {
    const send = <R>(request: ClientRequest & { readonly key: ObjectKey }, act: (author: Author) => R): Promise<R> => {
      const { name } = request.key;
      const author = { controller, name };
      const id = `${controller} ${name}`;
      return scope.hook(request, () => {
        this.#inFlight.set(id, (this.#inFlight.get(id) ?? 0) + 1);
        const fault = request.verb === 'get' ? undefined : this.#faults.shift();
        let result: { readonly value: R } | { readonly error: unknown } | undefined;
        try {
          if (fault === 'unsent') throw new NoResponseError('PATCH', new Error('cut'), false);
          if (fault === 'late') this.late.push(() => act({ ...author, isLate: true }));
          else result = { value: act(author) };
          if (fault !== undefined) throw new NoResponseError('PATCH', new Error('cut'), true);
        } catch (error) {
          result = { error };
        }
        return new Promise<R>((resolve, reject) => {
          const arrive = (): void => {
            this.#inFlight.set(id, (this.#inFlight.get(id) ?? 0) - 1);
            if (result === undefined || 'error' in result) return void reject(result?.error);
            const version = (result.value as Thing | undefined)?.metadata.resourceVersion ?? '0';
            const shown = `${id} ${request.kind.kind}`;
            if (request.verb !== 'get' && isAtLeast(version, this.#responded.get(shown) ?? '0'))
              this.#responded.set(shown, version);
            resolve(structuredClone(result.value));
          };
          this.responses.push({ author, arrive });
        });
      });
    };
    const servedOf = (kind: Kind): Served => (kind === Widget ? this.widgets : this.parts);
    const present = (kind: Kind, key: ObjectKey): Thing => {
      const object = servedOf(kind).objects.get(key.name);
      if (object === undefined) throw new ApiError('GET', 404, { reason: 'NotFound', details: { name: key.name } });
      return object;
    };
    const conflict = (message = '') => new ApiError('PATCH', 409, { reason: 'Conflict', message });
    const modified = (kind: Kind, key: ObjectKey, change: Partial<Thing>, author: Author): Thing => {
      const object = present(kind, key);
      const next = { ...object, ...change };
      return JSON.stringify(next) === JSON.stringify(object)
        ? object
        : this.#commit(servedOf(kind), 'MODIFIED', next, author);
    };
    return {
      get: (kind: Kind, key: ObjectKey) => send({ verb: 'get', kind, key }, () => present(kind, key)),
      create: (kind: Kind, { metadata, spec }: Thing) =>
        send({ verb: 'create', kind, key: metadata }, (author) => {
          if (servedOf(kind).objects.has(metadata.name)) throw new ApiError('POST', 409, { reason: 'AlreadyExists' });
          const { name, namespace = 'default' } = metadata;
          const created = stored(name, '0', { namespace, uid: `part-${++this.#uids}` }).metadata;
          return this.#commit(
            servedOf(kind),
            'ADDED',
            { metadata: created, ...(spec !== undefined && { spec }) },
            author,
          );
        }),
      apply: (kind: Kind, { metadata, spec }: Thing, { uid }: { readonly uid: string }) =>
        send({ verb: 'apply', kind, key: metadata, uid, body: { metadata, spec } }, (author) => {
          if (servedOf(kind).objects.get(metadata.name)?.metadata.uid !== uid) throw conflict();
          return modified(kind, metadata, spec === undefined ? {} : { spec }, author);
        }),
      mergeStatus: (
        kind: Kind,
        { resourceVersion, ...key }: ObjectKey & { readonly resourceVersion: string },
        status: object,
      ) => {
        const body = { metadata: { resourceVersion }, status };
        return send({ verb: 'patch', kind, key, subresource: 'status', body }, (author) => {
          const object = present(kind, key);
          if (object.metadata.resourceVersion !== resourceVersion) throw conflict();
          return modified(kind, key, { status: { ...object.status, ...status } }, author);
        });
      },
      patch: (kind: Kind, key: ObjectKey, { body }: { readonly body: { readonly status: object } }) =>
        send({ verb: 'patch', kind, key, subresource: 'status', body }, (author) =>
          modified(kind, key, { status: { ...present(kind, key).status, ...body.status } }, author),
        ),
      delete: (kind: Kind, key: ObjectKey, { uid }: { readonly uid: string }) =>
        send({ verb: 'delete', kind, key, uid }, (author) => {
          const object = present(kind, key);
          const actual = object.metadata.uid;
          if (actual !== uid)
            throw conflict(`Precondition failed: UID in precondition: ${uid}, UID in object meta: ${actual}`);
          this.#commit(servedOf(kind), 'DELETED', object, author);
          return undefined;
        }),
    } as unknown as Client;
  }

  /** The list is as of now, and arrives when the test says so. */
  #list(served: Served): Promise<List<Thing>> {
    const list = {
      items: structuredClone([...served.objects.values()]),
      metadata: { resourceVersion: String(this.#version) },
    };
    const position = served.events.length;
    return new Promise((resolve) => {
      served.list = () => {
        served.list = undefined;
        served.isExpired = false;
        served.position = position;
        resolve(list);
      };
    });
  }

  async *#watch(served: Served, { signal }: WatchOptions): AsyncGenerator<readonly WatchEvent<Thing>[]> {
    yield [];
    for (;;) {
      await new Promise<void>((resolve, reject) => {
        served.wake = resolve;
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
      if (served.isExpired) throw new ApiError('WATCH', 410, { reason: 'Expired' });
      const event = served.events[served.position];
      if (event === undefined) continue;
      served.position += 1;
      yield [structuredClone(event)];
    }
  }

  arrive(which: number): boolean {
    const [response] = this.responses.splice(which % Math.max(1, this.responses.length), 1);
    response?.arrive();
    return response !== undefined;
  }

  commitLate(): boolean {
    const act = this.late.shift();
    try {
      act?.();
    } catch {
      // The server refuses it, and nobody waits for that.
    }
    return act !== undefined;
  }

  deliver(served: Served): boolean {
    if (served.list !== undefined) {
      served.list();
      return true;
    }
    if (served.isExpired || served.position === served.events.length) return false;
    served.wake();
    return true;
  }

  expire(served: Served): void {
    if (served.list !== undefined) return;
    served.isExpired = true;
    served.wake();
  }

  /**
   * Everything that is on its way arrives. The responses come first: a key whose responses are overtaken each time
   * stamps each time.
   */
  async finish(): Promise<void> {
    const { widgets, parts } = this;
    for (let idle = 0, count = 0; idle < 3; count += 1) {
      if (count > 3000) return void this.violations.push('it does not come to an end');
      const isDone = !(this.arrive(0) || this.commitLate() || this.deliver(widgets) || this.deliver(parts));
      await tick();
      idle = isDone && !widgets.isExpired && !parts.isExpired ? idle + 1 : 0;
      if (isDone && (this.retries > 0 || widgets.isExpired || parts.isExpired)) {
        this.retries = 0;
        await delay(3);
      }
    }
    this.#requireConverged();
    this.#requireSeen();
  }

  #requireConverged(): void {
    for (const served of [this.widgets, this.parts]) {
      const contents = (objects: Iterable<Thing>) => [...objects].map((each) => JSON.stringify(each)).sort();
      const [wanted, held] = [contents(served.objects.values()), contents(this.#storeOf(served).list())];
      const mirrored = contents(this.#mirrors.get(served)?.values() ?? []);
      if (String(held) !== String(wanted))
        this.violations.push(`the store does not converge: ${held} instead of ${wanted}`);
      if (String(mirrored) !== String(held)) this.violations.push('the deltas do not lead to the store');
    }
    for (const [name, { spec, status, metadata }] of this.widgets.objects) {
      const part = this.parts.objects.get(name);
      if (part?.spec?.size !== spec?.size) this.violations.push(`${name} has no Part of its size`);
      if (status?.observedGeneration !== metadata.generation)
        this.violations.push(`the status of ${name} is of an old generation`);
      if (status?.out !== (part?.status?.out ?? 0)) this.violations.push(`the status of ${name} shows an old Part`);
      if (status?.seen !== spec?.size) this.violations.push(`the status of ${name} shows an old size`);
    }
  }

  /**
   * Every change is followed by a reconcile of each controller that starts with it visible, but for the key that made
   * it.
   */
  #requireSeen(): void {
    for (const controller of ['maker', 'observer']) {
      for (const name of names) {
        const start = this.#lastStart.get(`${controller} ${name}`);
        for (const [served, seen] of [
          [this.widgets, start?.widget],
          [this.parts, start?.part],
        ] as const) {
          const changes = this.#commits.filter((commit) => commit.served === served && commit.name === name);
          // A reconcile that sends the same once more has seen in its response what has taken effect late.
          const responded = this.#responded.get(`${controller} ${name} ${served.kind.kind}`) ?? '0';
          const last = changes.findLast(
            ({ author, version }) =>
              author?.controller !== controller ||
              author.name !== name ||
              (author.isLate === true && !isAtLeast(responded, version)),
          );
          if (last === undefined) continue;
          const isGone = seen === undefined && this.#isDeleted(last.uid);
          if (!isGone && !(seen !== undefined && isAtLeast(seen.metadata.resourceVersion, last.version)))
            this.violations.push(`${controller} has not seen ${last.uid} ${last.type} at ${last.version}`);
        }
      }
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    for (const controller of this.#controllers) controller.drain();
    // A reconcile, and an informer, that waits for a response ends with it.
    for (const served of [this.widgets, this.parts]) served.list?.();
    while (this.arrive(0)) await tick();
    await Promise.all(this.#running);
    for (const controller of this.#controllers) controller.detach();
  }
}

/** What becomes of a write: it is not sent, its response is lost, or it also takes effect later. */
type Fault = 'unsent' | 'lost' | 'late' | undefined;

const which = fc.constantFrom('widgets' as const, 'parts' as const);
const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant('foreign' as const),
      what: fc.constantFrom(
        'spec',
        'spec',
        'count',
        'count',
        'deletePart',
        'deletePart',
        'deleteWidget',
        'status',
        'createPart',
        'createPart',
      ),
      name: fc.constantFrom(...names),
      size: fc.nat(8),
    }),
  },
  { weight: 6, arbitrary: fc.record({ type: fc.constant('deliver' as const), which }) },
  { weight: 6, arbitrary: fc.record({ type: fc.constant('arrive' as const), index: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('commitLate' as const) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('expire' as const), which }) },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

function take(world: World, each: Step): void {
  if (each.type === 'foreign') world.foreign(each.what, each.name, each.size);
  else if (each.type === 'deliver') world.deliver(world[each.which]);
  else if (each.type === 'arrive') world.arrive(each.index);
  else if (each.type === 'commitLate') world.commitLate();
  else world.expire(world[each.which]);
}

test('every change of another client is followed by a reconcile that sees it, in each of two controllers without a predicate, and none loops on its own writes', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 60, size: 'max' }),
      fc.array(fc.constantFrom<Fault>(undefined, undefined, undefined, undefined, 'unsent', 'lost', 'late'), {
        maxLength: 20,
      }),
      async (steps, faults) => {
        const world = new World(faults);
        try {
          for (const each of steps) {
            take(world, each);
            // The informer pauses before it lists.
            await (each.type === 'expire' ? delay(2) : tick());
            if (world.violations.length > 0) break;
          }
          if (world.violations.length === 0) await world.finish();
          expect(world.violations).toEqual([]);
        } finally {
          await world.stop();
        }
      },
    ),
    // A history takes milliseconds: no time is left to look for a shorter one.
    { numRuns, endOnFailure: true },
  );
}, 600_000);
