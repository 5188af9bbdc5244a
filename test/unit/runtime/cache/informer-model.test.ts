import { setTimeout as delay } from 'node:timers/promises';
import { keyOf, keyString } from '@echoperator/runtime';
import { type Delta, Informer, type InformerOptions } from '@echoperator/runtime/cache';
import {
  ApiError,
  type Client,
  type List,
  type ListOptions,
  type WatchEvent,
  type WatchOptions,
} from '@echoperator/runtime/client';
import { expect, test } from '@jest/globals';
import { eventually } from '../../../../testkit/eventually.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';
import { stored, Widget } from '../../../../testkit/widgets.ts';

const pageOf = 2;

/** An API server in memory: history and all, so that a watch can be resumed, expire, be cut, and it can be restored. */
class History {
  #version = 100;
  #objects = new Map<string, Widget>();
  #events: WatchEvent<Widget>[] = [];
  #uids = 0;
  #compactedAt = 0;
  #backup: { version: number; objects: Map<string, Widget>; events: WatchEvent<Widget>[] } | undefined;
  readonly #changed = new Set<() => void>();
  /** Cut at the next sign of life, each watch once. */
  #cuts = 0;
  #watchedAt: number | undefined;
  readonly streams: boolean;

  constructor(streams: boolean) {
    this.streams = streams;
  }

  get version(): string {
    return String(this.#version);
  }

  /** Whether there is a watch that was opened since the last cut. */
  get isWatched(): boolean {
    return this.#watchedAt === this.#cuts;
  }

  get objects(): readonly Widget[] {
    return [...this.#objects.values()];
  }

  put(name: string, size: number): void {
    const before = this.#objects.get(name);
    this.#version += 1;
    const uid = before?.metadata.uid ?? String(++this.#uids);
    const object = { ...stored(name, this.version, { uid }), spec: { size } };
    this.#objects.set(name, object);
    this.#happened({ type: before === undefined ? 'ADDED' : 'MODIFIED', object });
  }

  remove(name: string): void {
    const before = this.#objects.get(name);
    if (before === undefined) return;
    this.#version += 1;
    this.#objects.delete(name);
    const metadata = { ...before.metadata, resourceVersion: this.version };
    this.#happened({ type: 'DELETED', object: { ...before, metadata } });
  }

  /** What happened up to now can be watched no more, nor can a list that is under way be gone on with. */
  compact(): void {
    this.#compactedAt = this.#version;
  }

  cut(): void {
    this.#cuts += 1;
    this.#notify();
  }

  backUp(): void {
    this.#backup = { version: this.#version, objects: new Map(this.#objects), events: [...this.#events] };
  }

  /** As etcd is restored: with the API server stopped, which cuts every watch. */
  restore(): void {
    if (this.#backup === undefined) return;
    this.#version = this.#backup.version;
    this.#objects = new Map(this.#backup.objects);
    this.#events = [...this.#backup.events];
    this.#compactedAt = Math.min(this.#compactedAt, this.#version);
    this.#uids += 100;
    this.cut();
  }

  bookmark(): void {
    this.#happened({ type: 'BOOKMARK', object: { metadata: { ...stored('', this.version).metadata } } });
  }

  readonly client: Pick<Client, 'list' | 'watchBatches'> = {
    list: async (_kind: unknown, options: ListOptions = {}): Promise<List<never>> => {
      await delay(0);
      const [at, start] = options.continue?.split('@').map(Number) ?? [this.#version, 0];
      if (at !== this.#version) throw new ApiError('GET', 410, { reason: 'Expired' });
      const limit = options.limit === 1 ? 1 : options.limit === undefined ? this.#objects.size : pageOf;
      const end = (start ?? 0) + limit;
      const more = end < this.#objects.size && { continue: `${at}@${end}` };
      return { items: this.objects.slice(start, end) as never[], metadata: { resourceVersion: this.version, ...more } };
    },
    watchBatches: (_kind: unknown, options: WatchOptions) => this.#watch(options) as AsyncIterable<never>,
  };

  async *#watch(options: WatchOptions): AsyncGenerator<readonly WatchEvent<Widget>[]> {
    const cuts = this.#cuts;
    let from = Number(options.resourceVersion ?? this.#version);
    if (options.sendInitialEvents) {
      if (!this.streams) throw new ApiError('WATCH', 422, { reason: 'Invalid' });
      for (const object of this.objects) yield [{ type: 'ADDED', object }];
      if (cuts !== this.#cuts) throw new Error('cut');
      if (from !== this.#version) throw new ApiError('WATCH', 410, { reason: 'Expired' });
      const annotations = { 'k8s.io/initial-events-end': 'true' };
      yield [{ type: 'BOOKMARK', object: { metadata: stored('', this.version, { annotations }).metadata } }];
    } else if (from < this.#compactedAt) {
      throw new ApiError('WATCH', 410, { reason: 'Expired' });
    }
    this.#watchedAt = cuts;
    for (;;) {
      if (options.signal.aborted) throw options.signal.reason;
      if (cuts !== this.#cuts) throw new Error('cut');
      const events = this.#events.filter(({ object }) => Number(object.metadata.resourceVersion) > from);
      const last = events.at(-1);
      if (last === undefined) {
        await this.#change(options.signal);
      } else {
        from = Number(last.object.metadata.resourceVersion);
        yield events;
      }
    }
  }

  #change(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#changed.delete(done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      this.#changed.add(done);
      signal.addEventListener('abort', done);
    });
  }

  #happened(event: WatchEvent<Widget>): void {
    this.#events.push(event);
    this.#notify();
  }

  #notify(): void {
    for (const changed of [...this.#changed]) changed();
  }
}

const name = fc.constantFrom('a', 'b', 'c', 'd', 'e');
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: fc.constant('put' as const), name, size: fc.nat(3) }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('remove' as const), name }) },
  ...(['cut', 'compact', 'backUp', 'restore', 'bookmark', 'pause'] as const).map((type) => ({
    weight: 1,
    arbitrary: fc.record({ type: fc.constant(type) }),
  })),
);

const byName = (objects: Iterable<Widget>): Widget[] =>
  [...objects].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));

test('the store and the sum of all deltas equal the list after any events, lost connections, expired versions and restored backups', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 40 }),
      fc.constantFrom<InformerOptions<Widget>['listing']>('paged', 'streamed'),
      fc.boolean(),
      async (steps, listing = 'paged', streams) => {
        const server = new History(streams);
        const log = new RecordingLog();
        const stop = new AbortController();
        const informer = new Informer({
          client: server.client as Client,
          kind: Widget,
          log,
          listing,
          freeze: true,
          backoff: { initialMs: 1, maxMs: 1 },
        });
        const mirror = new Map<string, Widget>();
        informer.addHandler((delta) => applyDelta(mirror, delta));
        informer.addIndex('size', ({ spec }) => [String(spec?.size)]);
        const running = informer.run(stop.signal);
        try {
          for (const current of steps) {
            if (current.type === 'put') server.put(current.name, current.size);
            else if (current.type === 'remove') server.remove(current.name);
            else if (current.type === 'pause') await delay(2);
            else if (current.type === 'restore') {
              server.restore();
              // A restored server that has written past our version looks like one that was never restored.
              await eventually('the restored state is watched', async () => server.isWatched);
            } else server[current.type]();
          }
          await eventually(
            `the store equals the list: ${JSON.stringify([...informer.store.list()])}`,
            async () => same(informer.store.list(), server.objects) && informer.hasReached(server.version),
          );
          expect(byName(mirror.values())).toEqual(byName(server.objects));
          for (const size of ['0', '1', '2', '3']) {
            const expected = server.objects.filter(({ spec }) => String(spec?.size) === size);
            expect(byName(informer.store.byIndex('size', size))).toEqual(byName(expected));
          }
          expect(log.messages('error')).toEqual([]);
        } finally {
          stop.abort();
          await running;
        }
      },
    ),
    { numRuns: 60 },
  );
});

const same = (a: Iterable<Widget>, b: Iterable<Widget>): boolean =>
  JSON.stringify(byName(a).map(({ metadata, spec }) => [metadata.name, metadata.uid, spec])) ===
  JSON.stringify(byName(b).map(({ metadata, spec }) => [metadata.name, metadata.uid, spec]));

/** Applies the delta to `mirror`. Fails if it contradicts the state of `mirror`. */
function applyDelta(mirror: Map<string, Widget>, delta: Delta<Widget>): void {
  const key = keyString(keyOf(delta.object));
  const known = mirror.get(key);
  expect(known === undefined).toBe(delta.type === 'added');
  if (delta.type !== 'added') expect(known?.metadata.uid).toBe(delta.object.metadata.uid);
  if (delta.type === 'modified') expect(delta.previous).toBe(known);
  if (delta.type === 'deleted') mirror.delete(key);
  else mirror.set(key, delta.object);
}
