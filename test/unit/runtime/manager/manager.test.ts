import { getEventListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  controllerReference,
  done,
  Manager,
  metadataOnly,
  owns,
  type Predicate,
  type Reconcile,
  selected,
  watches,
} from '@echoperator/runtime';
import { Metrics } from '@echoperator/runtime/process';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { Registry } from 'prom-client';
import { Overlay } from '../../../../packages/runtime/src/cache/overlay.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { Part, Planet, partsPath, stored, Widget, widgetsPath } from '../../../../testkit/widgets.ts';
import { Managed } from '../../environment/managed.ts';

let managed: Managed;
let begun: string[];
beforeEach(() => {
  begun = [];
});
afterEach(() => managed.close());

const noting =
  (then: Reconcile = async () => done): Reconcile =>
  (key, context) => {
    begun.push(key.name);
    return then(key, context);
  };
const reconciled = (...names: readonly string[]): Promise<boolean> =>
  eventually(`${names} are reconciled`, async () => begun.length >= names.length).finally(() =>
    expect(begun).toEqual(names),
  );

const oneWidget = { resourceVersion: '10', items: [stored('a', '1')] };

describe('a start', () => {
  test('starts the workers only when every cache has synced', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { watches: [owns(Widget, Part)], reconcile: noting() });
    expect(managed.manager.readiness()).toEqual({
      ready: false,
      waitingFor: ['widgets.test.example', 'parts.test.example'],
    });
    managed.run();
    await managed.sync({ [widgetsPath]: oneWidget });
    await managed.manager.informer(Widget).synced;
    expect(managed.manager.readiness()).toEqual({ ready: false, waitingFor: ['parts.test.example'] });
    expect(begun).toEqual([]);
    await managed.sync({ [partsPath]: { resourceVersion: '10' } });
    await reconciled('a');
    expect(managed.manager.readiness()).toEqual({ ready: true, waitingFor: [] });
  });

  test('does not wait for a cache that need not delay it, whose objects are reconciled when they arrive', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { reconcile: noting() });
    managed.manager.controller(Part, { informer: { delaysStart: false }, reconcile: noting() });
    managed.run();
    await managed.sync({ [widgetsPath]: oneWidget });
    await reconciled('a');
    expect(managed.manager.readiness()).toEqual({ ready: true, waitingFor: [] });
    await managed.sync({ [partsPath]: { resourceVersion: '10', items: [stored('b', '2')] } });
    await reconciled('a', 'b');
  });

  test('of a controller waits for the caches that it watches, and not for those of another controller', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { reconcile: noting() });
    managed.manager.controller(Part, { reconcile: noting() });
    // A cache that no controller watches may be read by each.
    managed.manager.informer(Planet);
    managed.run();
    await managed.sync({ [widgetsPath]: oneWidget });
    await managed.manager.informer(Widget).synced;
    await nextTurn();
    expect(begun).toEqual([]);
    await managed.sync({ '/apis/test.example/v1/planets': { resourceVersion: '10' } });
    await reconciled('a');
    expect(managed.manager.readiness()).toEqual({ ready: false, waitingFor: ['parts.test.example'] });
    await managed.sync({ [partsPath]: { resourceVersion: '10', items: [stored('b', '2')] } });
    await reconciled('a', 'b');
  });

  test('lists once a kind that two controllers watch', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { name: 'first', watches: [owns(Widget, Part)], reconcile: noting() });
    managed.manager.controller(Part, { name: 'second', reconcile: noting() });
    managed.run();
    await managed.sync({ [widgetsPath]: { resourceVersion: '1' }, [partsPath]: oneWidget });
    await reconciled('a');
    expect(managed.server.unclaimed).toBe(0);
  });

  test('waits for an API server that is unavailable', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { reconcile: noting() });
    managed.run();
    (await managed.server.next()).refuse(503, 'ServiceUnavailable');
    await managed.sync({ [widgetsPath]: oneWidget });
    await reconciled('a');
  });

  test('runs no worker if the manager was stopped before', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { reconcile: noting() });
    managed.abort();
    managed.run();
    await managed.ended;
    expect(begun).toEqual([]);
    expect(managed.manager.readiness().ready).toBe(false);
  });

  test('ends immediately and without a reconcile if the manager is stopped while a cache syncs', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { watches: [owns(Widget, Part)], reconcile: noting() });
    managed.run();
    await managed.sync({ [widgetsPath]: oneWidget });
    managed.abort();
    await managed.ended;
    expect(begun).toEqual([]);
  });
});

test.each(['cacheSyncTimeoutMs', 'drainTimeoutMs'])(
  'a manager rejects a %s that is not positive or too long for a timer',
  async (name) => {
    managed = await Managed.start();
    const { client, log } = managed;
    for (const timeMs of [0, -1, Number.NaN, 2 ** 31, Number.POSITIVE_INFINITY]) {
      expect(() => new Manager({ client, log, metrics: new Metrics(new Registry()), [name]: timeMs })).toThrow(
        new RangeError(`${name} must be above 0 and at most 2147483647 ms, is ${timeMs}`),
      );
    }
  },
);

describe('a stop', () => {
  test('waits for running reconciles, whose writes succeed, and starts no other', async () => {
    managed = await Managed.start();
    const gate = Promise.withResolvers<void>();
    managed.manager.controller(Widget, {
      workers: 1,
      reconcile: noting(async (key, { client, signal }) => {
        await gate.promise;
        await client.mergeStatus(Widget, { ...key, resourceVersion: '1' }, {});
        expect(signal.aborted).toBe(false);
        return done;
      }),
    });
    managed.run();
    const streams = await managed.sync({
      [widgetsPath]: { resourceVersion: '10', items: [stored('a', '1'), stored('b', '2')] },
    });
    await reconciled('a');
    let ended = false;
    void managed.ended.then(() => {
      ended = true;
    });
    managed.abort();
    await eventually('it stops', async () =>
      managed.log.messages('info').some((message) => message.startsWith('stopping')),
    );
    streams[widgetsPath]?.send('ADDED', stored('c', '11'));
    await eventually('the caches go on', async () => managed.manager.informer(Widget).hasReached('11'));
    expect(ended).toBe(false);
    gate.resolve();
    (await managed.server.next({ method: 'PATCH' })).json(200, stored('a', '12'));
    await managed.ended;
    expect(begun).toEqual(['a']);
    expect(managed.log.messages('error')).toEqual([]);
    expect(managed.manager.readiness()).toEqual({ ready: false, waitingFor: [] });
  });

  test('aborts a reconcile after the drain timeout', async () => {
    managed = await Managed.start({ drainTimeoutMs: 30 });
    managed.manager.controller(Widget, {
      reconcile: noting(async (key, { client }) => {
        await client.get(Widget, key);
        return done;
      }),
    });
    managed.run();
    await managed.sync({ [widgetsPath]: oneWidget });
    const request = await managed.server.next({ method: 'GET' });
    managed.abort();
    await managed.ended;
    await request.closed;
    expect(managed.log.messages('info')).toContain('reconcile failed after the drain timeout: not retried');
    expect(managed.log.messages('error')).toEqual([]);
    expect(begun).toEqual(['a']);
  });

  test('does not wait for a reconcile that ignores its signal', async () => {
    managed = await Managed.start({ drainTimeoutMs: 30 });
    managed.manager.controller(Widget, { reconcile: noting(() => new Promise(() => {})) });
    managed.run();
    await managed.sync({ [widgetsPath]: oneWidget });
    await eventually('the reconcile has begun', async () => begun.length === 1);
    managed.abort();
    await managed.ended;
    const [line] = managed.log.lines.filter(({ level }) => level === 'warn');
    expect(line).toMatchObject({
      message: 'a reconcile did not end after its signal was aborted: not waiting for it',
      details: { controllers: ['widget'] },
    });
  });

  test('closes the watches', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { reconcile: noting() });
    managed.run();
    (await managed.server.next({ watch: false })).list('10', []);
    const watch = await managed.server.next({ watch: true });
    watch.stream();
    await eventually('it is ready', async () => managed.manager.readiness().ready);
    managed.abort();
    await managed.ended;
    await watch.closed;
  });
});

describe('a manager', () => {
  test('without a controller runs its informers until it is stopped', async () => {
    managed = await Managed.start();
    const informer = managed.manager.informer(Widget);
    managed.run();
    const streams = await managed.sync({ [widgetsPath]: oneWidget });
    await informer.synced;
    streams[widgetsPath]?.send('ADDED', stored('b', '11'));
    await eventually('the informer lives', async () => informer.store.size === 2);
    expect(managed.manager.readiness().ready).toBe(true);
    managed.abort();
    await managed.ended;
  });

  test('cannot run twice', async () => {
    managed = await Managed.start();
    managed.run();
    const { signal } = new AbortController();
    await expect(managed.manager.run(signal)).rejects.toThrow('a manager runs only once');
    managed.abort();
    await managed.ended;
    await expect(managed.manager.run(signal)).rejects.toThrow('a manager runs only once');
  });

  test('that has stopped accepts neither informers nor controllers', async () => {
    managed = await Managed.start();
    managed.run();
    managed.abort();
    await managed.ended;
    expect(() => managed.manager.informer(Planet)).toThrow('the manager has stopped');
    expect(() => managed.manager.controller(Widget, { reconcile: noting() })).toThrow('the manager has stopped');
  });

  test('fails with an error of a worker outside a reconcile, and stops its caches', async () => {
    const defect = new Error('a defect');
    const metrics = {
      queue: () => ({}),
      informer: () => () => {},
      reconciles: () => ({
        started: () => {
          throw defect;
        },
        finished: () => {},
      }),
    } as unknown as Metrics;
    managed = await Managed.start({ metrics });
    managed.manager.controller(Widget, { reconcile: noting() });
    managed.run();
    (await managed.server.next({ watch: false })).list('10', []);
    const watch = await managed.server.next({ watch: true });
    watch.stream().send('ADDED', stored('a', '11'));
    await expect(managed.ended).rejects.toBe(defect);
    await watch.closed;
  });
});

describe('an informer', () => {
  test('is shared by all users of a kind with the same options or none', async () => {
    managed = await Managed.start();
    const options = { namespaces: ['a'], labelSelector: 'x=y' };
    const informer = managed.manager.informer(Widget, options);
    expect(managed.manager.informer(Widget)).toBe(informer);
    expect(managed.manager.informer(Widget, { ...options })).toBe(informer);
  });

  test('is separate for another version of the kind', async () => {
    managed = await Managed.start();
    const second: typeof Widget = { ...Widget, version: 'v2' };
    const informer = managed.manager.informer(second);
    expect(managed.manager.informer(Widget)).not.toBe(informer);
    managed.run();
    await managed.sync({
      [widgetsPath]: oneWidget,
      '/apis/test.example/v2/widgets': { resourceVersion: '10', items: [stored('b', '9')] },
    });
    await informer.synced;
    expect([...informer.store.list()].map(({ metadata }) => metadata.name)).toEqual(['b']);
    await managed.manager.release(informer);
    expect(managed.manager.readiness()).toEqual({ ready: true, waitingFor: [] });
  });

  test('is waited for while its kind is not served or the server is unavailable', async () => {
    managed = await Managed.start({ cacheSyncTimeoutMs: 20 });
    managed.manager.informer(Widget);
    managed.run();
    (await managed.server.next()).refuse(404, 'NotFound');
    (await managed.server.next()).cut();
    await managed.sync({ [widgetsPath]: oneWidget });
    await managed.manager.synced;
  });

  test('that has not synced when the manager stops leaves `synced` pending', async () => {
    managed = await Managed.start();
    managed.manager.informer(Widget);
    managed.run();
    await managed.server.next();
    managed.abort();
    await managed.ended;
    const pending = Symbol('pending');
    expect(await Promise.race([managed.manager.synced, nextTurn(pending)])).toBe(pending);
    expect(managed.log.messages('info').filter((message) => message.includes('synced'))).toEqual([]);
  });

  test('is waited for if its kind is forbidden for less than cacheSyncTimeoutMs', async () => {
    managed = await Managed.start({ cacheSyncTimeoutMs: 20 });
    managed.manager.informer(Widget);
    managed.run();
    // Pauses are longer than that time.
    (await managed.server.next()).refuse(403, 'Forbidden');
    (await managed.server.next()).refuse(500, 'InternalError');
    (await managed.server.next()).refuse(403, 'Forbidden');
    await managed.sync({ [widgetsPath]: oneWidget });
    await managed.manager.synced;
  });

  test('fails the run if its kind is forbidden for cacheSyncTimeoutMs', async () => {
    managed = await Managed.start({ cacheSyncTimeoutMs: 20 });
    managed.manager.informer(Widget, { namespaces: ['a'] });
    managed.run();
    (await managed.server.next()).refuse(403, 'Forbidden');
    (await managed.server.next()).refuse(403, 'Forbidden');
    await expect(managed.ended).rejects.toThrow(
      /^no permission to list widgets.test.example in the namespace a for \d s: /,
    );
  });

  test.each([
    [403, 'Forbidden'],
    [404, 'NotFound'],
    [500, 'InternalError'],
  ])(
    'makes the manager not ready while its watch fails with %i for cacheSyncTimeoutMs after the sync',
    async (code, reason) => {
      // Shorter than the pause after the failure.
      managed = await Managed.start({ cacheSyncTimeoutMs: 200 });
      managed.manager.informer(Widget);
      managed.run();
      (await managed.server.next({ watch: false })).list('10', []);
      await managed.manager.synced;
      const watch = await managed.server.next({ watch: true });
      expect(managed.manager.readiness().ready).toBe(true);
      watch.refuse(code, reason);
      await eventually('it is not ready', async () => !managed.manager.readiness().ready);
      expect(managed.manager.readiness()).toEqual({ ready: false, waitingFor: ['widgets.test.example'] });
      (await managed.server.next({ watch: true })).refuse(code, reason);
      expect(managed.manager.readiness().ready).toBe(false);
      (await managed.server.next({ watch: true })).stream();
      await eventually('it is ready again', async () => managed.manager.readiness().ready);
    },
  );

  test('makes the manager not ready while the server is away for cacheSyncTimeoutMs after the sync', async () => {
    managed = await Managed.start({ cacheSyncTimeoutMs: 200 });
    managed.manager.informer(Widget);
    managed.run();
    (await managed.server.next({ watch: false })).list('10', []);
    const watch = (await managed.server.next({ watch: true })).stream();
    await managed.manager.synced;
    watch.cut();
    await eventually('it is not ready', async () => !managed.manager.readiness().ready);
    (await managed.server.next({ watch: false })).list('10', []);
    (await managed.server.next({ watch: true })).stream();
    await eventually('it is ready again', async () => managed.manager.readiness().ready);
  });

  test('cannot be requested with the same selection and other options', async () => {
    managed = await Managed.start();
    managed.manager.informer(Widget, { namespaces: ['a'], optional: true });
    expect(() => managed.manager.informer(Widget, { namespaces: ['a'], freeze: true })).toThrow(
      'the informer of widgets.test.example has { optional }, and { freeze } was asked for: pass the same options, or none',
    );
  });

  test('is separate for another selection, and the same for an equal one', async () => {
    managed = await Managed.start();
    const { manager } = managed;
    const labels = manager.informer(Widget, { labelSelector: 'a=b,c in (d,e)' });
    const all = [
      labels,
      manager.informer(Widget, {}),
      manager.informer(Widget, { labelSelector: 'a=c' }),
      manager.informer(Widget, { fieldSelector: 'metadata.name=a' }),
      manager.informer(Widget, { namespaces: ['a', 'b'] }),
      manager.informer(metadataOnly(Widget), {}),
      manager.informer(metadataOnly(Widget), { labelSelector: 'a=b,c in (d,e)' }),
    ];
    expect(new Set(all).size).toBe(all.length);
    expect(manager.informer(Widget, { labelSelector: ' c in (d,e), a=b ' })).toBe(labels);
    expect(manager.informer(Widget, { namespaces: ['b', 'a'] })).toBe(all[4]);
    expect(manager.informer(selected(Widget, { labelSelector: 'a=b' }), { labelSelector: 'c in (d,e)' })).toBe(labels);
    expect(manager.informer(metadataOnly(Widget))).toBe(all[5]);
    expect(manager.informer(Widget)).toBe(labels);
  });

  test('of each selection has metrics of its own', async () => {
    managed = await Managed.start();
    const { manager, registry } = managed;
    manager.informer(Widget);
    const web = manager.informer(selected(Widget, { labelSelector: 'app=web' }));
    manager.informer(metadataOnly(Widget));
    const series = async () =>
      (await registry.metrics()).split('\n').filter((line) => line.startsWith('informer_cached_objects{'));
    expect(await series()).toEqual([
      'informer_cached_objects{resource="widgets.test.example"} 0',
      'informer_cached_objects{resource="widgets.test.example",view="labels app=web"} 0',
      'informer_cached_objects{resource="widgets.test.example",view="metadata"} 0',
    ]);
    await manager.release(web);
    expect(await series()).toHaveLength(2);
  });

  test('of metadata asks for metadata, and its objects have nothing else', async () => {
    managed = await Managed.start();
    const informer = managed.manager.informer(metadataOnly(Widget));
    managed.run();
    const list = await managed.server.next({ path: widgetsPath, watch: false });
    expect(list.headers.accept).toContain(';as=PartialObjectMetadataList;');
    const { metadata } = stored('a', '1');
    list.list('10', [{ apiVersion: 'meta.k8s.io/v1', kind: 'PartialObjectMetadata', metadata }]);
    const watch = await managed.server.next({ path: widgetsPath, watch: true });
    expect(watch.headers.accept).toContain(';as=PartialObjectMetadata;');
    await informer.synced;
    expect(informer.store.list()).toEqual([{ apiVersion: 'test.example/v1', kind: 'Widget', metadata }]);
  });

  test('of each selection shows what a reconcile writes', async () => {
    managed = await Managed.start();
    const { manager, server } = managed;
    const whole = manager.informer(Widget, {});
    const small = manager.informer(Widget, { labelSelector: 'size=small' });
    const metadata = manager.informer(metadataOnly(Widget), {});
    const written = Promise.withResolvers<void>();
    manager.controller(Widget, {
      reconcile: async (key, { client }) => {
        await client.patch(metadataOnly(Widget), key, {
          type: 'merge',
          body: { metadata: { labels: { size: 'small' } } },
        });
        written.resolve();
        return done;
      },
    });
    managed.run();
    for (let n = 0; n < 3; n += 1) {
      const list = await server.next({ path: widgetsPath, watch: false });
      list.list('10', list.query.has('labelSelector') ? [] : [stored('a', '1')]);
    }
    const patch = await server.next({ method: 'PATCH' });
    const object = stored('a', '11');
    const labelled = { ...object, metadata: { ...object.metadata, labels: { size: 'small' } }, spec: { size: 1 } };
    patch.json(200, labelled);
    await written.promise;
    expect(whole.store.list()).toEqual([labelled]);
    expect(small.store.list()).toEqual([labelled]);
    expect(metadata.store.list()).toEqual([
      { apiVersion: 'test.example/v1', kind: 'Widget', metadata: labelled.metadata },
    ]);
  });

  test('added while the manager runs is started, and readiness waits for it', async () => {
    managed = await Managed.start();
    managed.run();
    const informer = managed.manager.informer(Widget);
    expect(managed.manager.readiness()).toEqual({ ready: false, waitingFor: ['widgets.test.example'] });
    await managed.sync({ [widgetsPath]: oneWidget });
    await informer.synced;
    expect(managed.manager.readiness()).toEqual({ ready: true, waitingFor: [] });
  });

  test('that fails on a programming error is not ready until it has processed an event', async () => {
    managed = await Managed.start();
    managed.run();
    const informer = managed.manager.informer(Widget);
    const { [widgetsPath]: stream } = await managed.sync({ [widgetsPath]: oneWidget });
    await informer.synced;
    const observe = jest.spyOn(Overlay.prototype, 'observe').mockImplementation(() => {
      throw new TypeError('x is not a function');
    });
    stream.send('MODIFIED', stored('a', '11'));
    await eventually('it is not ready', async () => !managed.manager.readiness().ready);
    expect(managed.manager.readiness()).toEqual({ ready: false, waitingFor: ['widgets.test.example'] });
    observe.mockRestore();
    (await managed.server.next({ path: widgetsPath, watch: false })).list('11', []);
    const resumed = (await managed.server.next({ path: widgetsPath, watch: true })).stream();
    resumed.send('MODIFIED', stored('a', '11'));
    await eventually('it is ready again', async () => managed.manager.readiness().ready);
  });

  test('stops when its last holder releases it', async () => {
    managed = await Managed.start();
    managed.manager.informer(Widget);
    const informer = managed.manager.informer(Widget);
    managed.run();
    (await managed.server.next({ watch: false })).list('10', []);
    const watch = await managed.server.next({ watch: true });
    watch.stream();
    await managed.manager.release(informer);
    expect(managed.manager.readiness().waitingFor).toEqual([]);
    await managed.manager.release(informer);
    await watch.closed;
    await expect(managed.manager.release(informer)).rejects.toThrow(
      'nobody holds this informer of widgets.test.example',
    );
  });
});

describe('a controller', () => {
  test('added while the manager runs reconciles existing and new objects', async () => {
    managed = await Managed.start();
    const informer = managed.manager.informer(Widget);
    managed.run();
    const streams = await managed.sync({ [widgetsPath]: oneWidget });
    await informer.synced;
    managed.manager.controller(Widget, { watches: [owns(Widget, Part)], reconcile: noting() });
    await managed.sync({ [partsPath]: { resourceVersion: '10' } });
    await reconciled('a');
    streams[widgetsPath]?.send('ADDED', stored('b', '11'));
    await reconciled('a', 'b');
  });

  test('that owns a kind with a predicate receives only the changes of children that the predicate accepts', async () => {
    managed = await Managed.start();
    const predicate: Predicate<Part> = ({ object }) => object.metadata.labels?.size === 'big';
    managed.manager.controller(Widget, { watches: [owns(Widget, Part, { predicate })], reconcile: noting() });
    managed.run();
    const streams = await managed.sync({ [widgetsPath]: oneWidget, [partsPath]: { resourceVersion: '10' } });
    await reconciled('a');
    const childOf = (owner: string) => ({ ownerReferences: [controllerReference(Widget, stored(owner, '1'))] });
    streams[partsPath]?.send('ADDED', stored('p', '11', childOf('small')));
    streams[partsPath]?.send('ADDED', stored('q', '12', { ...childOf('big'), labels: { size: 'big' } }));
    await reconciled('a', 'big');
  });

  test('that is removed drains its reconciles and stops the informers that only it holds', async () => {
    managed = await Managed.start();
    const gate = Promise.withResolvers<void>();
    const kept = managed.manager.informer(Widget);
    const handle = managed.manager.controller(Widget, {
      watches: [owns(Widget, Part)],
      reconcile: noting(async () => {
        await gate.promise;
        return done;
      }),
    });
    managed.run();
    const { [widgetsPath]: widgets } = await managed.sync({ [widgetsPath]: oneWidget });
    (await managed.server.next({ path: partsPath, watch: false })).list('10', []);
    const parts = await managed.server.next({ path: partsPath, watch: true });
    parts.stream();
    await reconciled('a');
    const removed = handle.remove();
    gate.resolve();
    await removed;
    await parts.closed;
    expect(await managed.registry.metrics()).not.toContain('"widget"');
    widgets.send('ADDED', stored('b', '11'));
    await eventually('the other informer goes on', async () => kept.store.size === 2);
    expect(begun).toEqual(['a']);
    managed.manager.controller(Widget, { reconcile: noting() });
    await reconciled('a', 'a', 'b');
  });

  test('that is removed twice releases its informers once', async () => {
    managed = await Managed.start();
    const kept = managed.manager.informer(Widget);
    const handle = managed.manager.controller(Widget, { reconcile: noting() });
    managed.run();
    const { [widgetsPath]: widgets } = await managed.sync({ [widgetsPath]: oneWidget });
    await reconciled('a');
    await Promise.all([handle.remove(), handle.remove()]);
    await handle.remove();
    widgets.send('ADDED', stored('b', '11'));
    await eventually('the informer goes on', async () => kept.store.size === 2);
  });

  test('that is removed leaves no listener on an informer that stays', async () => {
    managed = await Managed.start();
    const kept = managed.manager.informer(Widget);
    managed.run();
    await managed.sync({ [widgetsPath]: oneWidget });
    await kept.synced;
    const signals = new Set<AbortSignal>();
    const { addEventListener } = AbortSignal.prototype;
    jest.spyOn(AbortSignal.prototype, 'addEventListener').mockImplementation(function (
      this: AbortSignal,
      ...listener: Parameters<typeof addEventListener>
    ) {
      signals.add(this);
      addEventListener.apply(this, listener);
    });
    for (const count of [1, 2, 3]) {
      const handle = managed.manager.controller(Widget, { reconcile: noting() });
      await eventually('it reconciles', async () => begun.length === count);
      await handle.remove();
    }
    jest.restoreAllMocks();
    const listeners = [...signals].map((signal) => getEventListeners(signal, 'abort').length);
    expect(Math.max(...listeners)).toBeLessThanOrEqual(1);
  });

  test('that cannot be created leaves no informer and no handler', async () => {
    managed = await Managed.start();
    const kept = managed.manager.informer(Widget);
    const heard = jest.fn();
    const addHandler = kept.addHandler.bind(kept);
    jest.spyOn(kept, 'addHandler').mockImplementation((handler) => {
      const remove = addHandler(handler);
      return () => {
        heard();
        remove();
      };
    });
    const watch = watches(Planet, () => []);
    const refused = {
      attach: () =>
        watch.attach(
          () => {
            throw new Error('refused');
          },
          () => {},
        ),
    };
    const make = () =>
      managed.manager.controller(Widget, { watches: [owns(Widget, Part), refused], reconcile: noting() });
    expect(make).toThrow('refused');
    expect(heard).toHaveBeenCalledTimes(1);
    expect(managed.manager.readiness().waitingFor).toEqual(['widgets.test.example']);
    managed.manager.controller(Widget, { reconcile: noting() });
  });

  test('with invalid numbers leaves no informer, no handler and no metric', async () => {
    managed = await Managed.start();
    const kept = managed.manager.informer(Widget);
    const before = await managed.registry.metrics();
    const addHandler = jest.spyOn(kept, 'addHandler');
    const options = { watches: [owns(Widget, Part)], reconcile: noting() };
    for (const [wrong, message] of [
      [{ resyncEveryMs: 0 }, 'resyncEveryMs must be above 0 and at most 2147483647 ms, is 0'],
      [{ retries: { retriesPerSecond: 0 } }, 'retriesPerSecond must be above 0, is 0'],
      [{ workers: 0 }, 'workers must be an integer of at least 1, is 0'],
      [{ workers: 1.5 }, 'workers must be an integer of at least 1, is 1.5'],
    ] as const) {
      expect(() => managed.manager.controller(Widget, { ...options, ...wrong })).toThrow(new RangeError(message));
    }
    expect(addHandler).not.toHaveBeenCalled();
    expect(managed.manager.readiness().waitingFor).toEqual(['widgets.test.example']);
    expect(await managed.registry.metrics()).toBe(before);
  });

  test('must have a unique name', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { reconcile: noting() });
    expect(() => managed.manager.controller(Widget, { reconcile: noting() })).toThrow(
      'controller "widget" already exists: give this one another name',
    );
  });
});

describe('a warm standby', () => {
  test('keeps its caches current, and reconciles every object when it leads', async () => {
    managed = await Managed.start();
    const leading = Promise.withResolvers<void>();
    managed.manager.controller(Widget, { watches: [owns(Widget, Part)], reconcile: noting() });
    managed.run({ leading: leading.promise });
    const items = [stored('gone', '1'), stored('stays', '2')];
    const streams = await managed.sync({
      [widgetsPath]: { resourceVersion: '10', items },
      [partsPath]: { resourceVersion: '10' },
    });
    await eventually('it is ready', async () => managed.manager.readiness().ready);
    streams[widgetsPath]?.send('DELETED', stored('gone', '11'));
    streams[widgetsPath]?.send('ADDED', stored('new', '12'));
    const { store } = managed.manager.informer(Widget);
    await eventually('the cache follows', async () => store.get({ namespace: 'default', name: 'new' }) !== undefined);
    expect(await managed.metric('workqueue_adds_total', { name: 'widget' })).toBe(0);
    expect(begun).toEqual([]);

    leading.resolve();
    await reconciled('stays', 'new');
    streams[widgetsPath]?.send('MODIFIED', stored('stays', '13'));
    await reconciled('stays', 'new', 'stays');
  });

  test('does not start a controller that is added later', async () => {
    managed = await Managed.start();
    const leading = Promise.withResolvers<void>();
    managed.run({ leading: leading.promise });
    const handle = managed.manager.controller(Widget, { reconcile: noting() });
    managed.manager.controller(Widget, { name: 'other', reconcile: noting() });
    await managed.sync({ [widgetsPath]: oneWidget });
    await eventually('it is ready', async () => managed.manager.readiness().ready);
    await handle.remove();
    expect(await managed.metric('workqueue_adds_total', { name: 'other' })).toBe(0);
    leading.resolve();
    await reconciled('a');
  });

  test('stops when its signal is aborted', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { reconcile: noting() });
    managed.run({ leading: new Promise(() => {}) });
    await managed.sync({ [widgetsPath]: oneWidget });
    managed.abort();
    await managed.ended;
    expect(begun).toEqual([]);
  });
});

describe('a task', () => {
  test('runs while the process leads, and is waited for', async () => {
    managed = await Managed.start();
    const leading = Promise.withResolvers<void>();
    const events: string[] = [];
    managed.manager.task(async (signal) => {
      events.push('begins');
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      events.push('ends');
    });
    managed.run({ leading: leading.promise });
    await eventually('it stands by', async () => managed.manager.readiness().ready);
    expect(events).toEqual([]);
    leading.resolve();
    await eventually('the task runs', async () => events.length > 0);
    expect(() => managed.manager.task(async () => {})).toThrow('before the manager runs');
    managed.abort();
    await managed.ended;
    expect(events).toEqual(['begins', 'ends']);
  });

  test('does not run in a standby that stops', async () => {
    managed = await Managed.start();
    const events: string[] = [];
    managed.manager.task(async () => void events.push('begins'));
    managed.run({ leading: new Promise(() => {}) });
    managed.abort();
    await managed.ended;
    expect(events).toEqual([]);
  });
});
