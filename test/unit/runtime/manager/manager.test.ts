import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { Registry } from 'prom-client';
import { done, Manager, type Reconcile, watches } from '../../../../src/runtime/index.ts';
import { Metrics } from '../../../../src/runtime/process/index.ts';
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

describe('the start', () => {
  test('is of workers only when every cache has synced', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { owns: [Part], reconcile: noting() });
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

  test('asks once for a kind that two controllers watch', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { name: 'first', owns: [Part], reconcile: noting() });
    managed.manager.controller(Part, { name: 'second', reconcile: noting() });
    managed.run();
    await managed.sync({ [widgetsPath]: { resourceVersion: '1' }, [partsPath]: oneWidget });
    await reconciled('a');
    expect(managed.server.unclaimed).toBe(0);
  });

  test('waits for an API server that is away', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { reconcile: noting() });
    managed.run();
    (await managed.server.next()).refuse(503, 'ServiceUnavailable');
    await managed.sync({ [widgetsPath]: oneWidget });
    await reconciled('a');
  });

  test('is not, if the manager was to stop before', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { reconcile: noting() });
    managed.abort();
    managed.run();
    await managed.ended;
    expect(begun).toEqual([]);
    expect(managed.manager.readiness().ready).toBe(false);
  });

  test('ends while it waits for a cache, at once and without a reconcile', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { owns: [Part], reconcile: noting() });
    managed.run();
    await managed.sync({ [widgetsPath]: oneWidget });
    managed.abort();
    await managed.ended;
    expect(begun).toEqual([]);
  });
});

test.each(['cacheSyncTimeoutMs', 'drainTimeoutMs'])(
  'a manager takes no %s that a timer cannot wait for',
  async (name) => {
    managed = await Managed.start();
    const { client, log } = managed;
    for (const timeMs of [0, -1, Number.NaN, 2 ** 31, Number.POSITIVE_INFINITY]) {
      expect(() => new Manager({ client, log, metrics: new Metrics(new Registry()), [name]: timeMs })).toThrow(
        new RangeError(`${name} takes milliseconds from above 0 to 2147483647, not ${timeMs}`),
      );
    }
  },
);

describe('the stop', () => {
  test('waits for the reconcile under way, whose writes arrive, and begins no other', async () => {
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

  test('gives a reconcile up that takes longer than the drain may', async () => {
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
    expect(managed.log.messages('info')).toContain('reconcile aborted: the drain timeout is over');
    expect(managed.log.messages('error')).toEqual([]);
    expect(begun).toEqual(['a']);
  });

  test('leaves a reconcile behind that does not hear that it is aborted', async () => {
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
  test('without a controller runs until it is stopped: others read its informers', async () => {
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

  test('runs once', async () => {
    managed = await Managed.start();
    managed.run();
    const { signal } = new AbortController();
    await expect(managed.manager.run(signal)).rejects.toThrow('a manager runs once');
    managed.abort();
    await managed.ended;
    await expect(managed.manager.run(signal)).rejects.toThrow('a manager runs once');
  });

  test('that has stopped takes neither informers nor controllers', async () => {
    managed = await Managed.start();
    managed.run();
    managed.abort();
    await managed.ended;
    expect(() => managed.manager.informer(Planet)).toThrow('the manager has stopped');
    expect(() => managed.manager.controller(Widget, { reconcile: noting() })).toThrow('the manager has stopped');
  });

  test('fails with a defect of a worker, and stops its caches', async () => {
    const defect = new Error('a defect');
    const metrics = {
      queue: () => ({}),
      watchesReplaced: () => () => {},
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

describe('informers', () => {
  test('are one a kind, whoever asks, also by the same options', async () => {
    managed = await Managed.start();
    const options = { namespaces: ['a'], labelSelector: 'x=y' };
    const informer = managed.manager.informer(Widget, options);
    expect(managed.manager.informer(Widget)).toBe(informer);
    expect(managed.manager.informer(Widget, { ...options })).toBe(informer);
  });

  test('are another for another version of the kind, which is asked for by itself', async () => {
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
    await managed.manager.release(second);
    expect(managed.manager.readiness()).toEqual({ ready: true, waitingFor: [] });
  });

  test('of a kind that is not served yet, or of a server that is away, are waited for', async () => {
    managed = await Managed.start({ cacheSyncTimeoutMs: 20 });
    managed.manager.informer(Widget);
    managed.run();
    (await managed.server.next()).refuse(404, 'NotFound');
    (await managed.server.next()).cut();
    await managed.sync({ [widgetsPath]: oneWidget });
    await managed.manager.synced;
  });

  test('of a kind that was forbidden for a moment are waited for', async () => {
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

  test('of a kind that is forbidden for that long fail the run', async () => {
    managed = await Managed.start({ cacheSyncTimeoutMs: 20 });
    managed.manager.informer(Widget, { namespaces: ['a'] });
    managed.run();
    (await managed.server.next()).refuse(403, 'Forbidden');
    (await managed.server.next()).refuse(403, 'Forbidden');
    await expect(managed.ended).rejects.toThrow(
      /^no permission to list widgets.test.example in the namespace a for \d s: /,
    );
  });

  test('are refused for other options', async () => {
    managed = await Managed.start();
    managed.manager.informer(Widget, { namespaces: ['a'] });
    expect(() => managed.manager.informer(Widget, { namespaces: ['b'] })).toThrow(
      'there is one informer for widgets.test.example, and it has other options (namespaces)',
    );
  });

  test('asked for while it runs start, and /readyz waits for them', async () => {
    managed = await Managed.start();
    managed.run();
    const informer = managed.manager.informer(Widget);
    expect(managed.manager.readiness()).toEqual({ ready: false, waitingFor: ['widgets.test.example'] });
    await managed.sync({ [widgetsPath]: oneWidget });
    await informer.synced;
    expect(managed.manager.readiness()).toEqual({ ready: true, waitingFor: [] });
  });

  test('that fail on a programming error make /readyz fail until a retry succeeds', async () => {
    managed = await Managed.start();
    managed.run();
    const informer = managed.manager.informer(Widget);
    const { [widgetsPath]: stream } = await managed.sync({ [widgetsPath]: oneWidget });
    await informer.synced;
    const removeObserver = informer.observe({
      progressed: () => {
        throw new TypeError('x is not a function');
      },
      listed: () => {},
      reset: () => {},
    });
    stream.send('MODIFIED', stored('a', '11'));
    await eventually('it is not ready', async () => !managed.manager.readiness().ready);
    expect(managed.manager.readiness()).toEqual({ ready: false, waitingFor: ['widgets.test.example'] });
    removeObserver();
    (await managed.server.next({ path: widgetsPath, watch: false })).list('11', []);
    (await managed.server.next({ path: widgetsPath, watch: true })).stream();
    await eventually('it is ready again', async () => managed.manager.readiness().ready);
  });

  test('stop when the last who holds them has given them back', async () => {
    managed = await Managed.start();
    managed.manager.informer(Widget);
    managed.manager.informer(Widget);
    managed.run();
    (await managed.server.next({ watch: false })).list('10', []);
    const watch = await managed.server.next({ watch: true });
    watch.stream();
    await managed.manager.release(Widget);
    expect(managed.manager.readiness().waitingFor).toEqual([]);
    await managed.manager.release(Widget);
    await watch.closed;
    await expect(managed.manager.release(Widget)).rejects.toThrow('nobody holds an informer of widgets.test.example');
  });
});

describe('a controller', () => {
  test('added while it runs reconciles what there is, and what comes', async () => {
    managed = await Managed.start();
    const informer = managed.manager.informer(Widget);
    managed.run();
    const streams = await managed.sync({ [widgetsPath]: oneWidget });
    await informer.synced;
    managed.manager.controller(Widget, { owns: [Part], reconcile: noting() });
    await managed.sync({ [partsPath]: { resourceVersion: '10' } });
    await reconciled('a');
    streams[widgetsPath]?.send('ADDED', stored('b', '11'));
    await reconciled('a', 'b');
  });

  test('that is removed ends what is under way, and the informers that it alone holds', async () => {
    managed = await Managed.start();
    const gate = Promise.withResolvers<void>();
    const kept = managed.manager.informer(Widget);
    const handle = managed.manager.controller(Widget, {
      owns: [Part],
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

  test('removed twice gives back what it held once: the informer stays with its other holder', async () => {
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

  test('that comes and goes leaves no listener with an informer that stays', async () => {
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

  test('that cannot be made leaves nothing behind: no informer, no handler', async () => {
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
    const make = () => managed.manager.controller(Widget, { owns: [Part], watches: [refused], reconcile: noting() });
    expect(make).toThrow('refused');
    expect(heard).toHaveBeenCalledTimes(1);
    expect(managed.manager.readiness().waitingFor).toEqual(['widgets.test.example']);
    managed.manager.controller(Widget, { reconcile: noting() });
  });

  test('whose numbers make no sense leaves nothing behind: no informer, no handler, no metric', async () => {
    managed = await Managed.start();
    const before = await managed.registry.metrics();
    const kept = managed.manager.informer(Widget);
    const addHandler = jest.spyOn(kept, 'addHandler');
    const options = { owns: [Part], reconcile: noting() };
    for (const wrong of [{ observationTimeoutMs: 0 }, { retries: { retriesPerSecond: 0 } }]) {
      expect(() => managed.manager.controller(Widget, { ...options, ...wrong })).toThrow(RangeError);
    }
    expect(addHandler).not.toHaveBeenCalled();
    expect(managed.manager.readiness().waitingFor).toEqual(['widgets.test.example']);
    expect(await managed.registry.metrics()).toBe(before);
  });

  test('has a name of its own', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { reconcile: noting() });
    expect(() => managed.manager.controller(Widget, { reconcile: noting() })).toThrow(
      'there is a controller "widget" already: give this one a name',
    );
  });
});

describe('standing by', () => {
  test('it follows what its caches hold, and reconciles what is there when it leads', async () => {
    managed = await Managed.start();
    const leading = Promise.withResolvers<void>();
    managed.manager.controller(Widget, { owns: [Part], reconcile: noting() });
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

  test('a controller that comes later waits too', async () => {
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

  test('asked to stop it stops', async () => {
    managed = await Managed.start();
    managed.manager.controller(Widget, { reconcile: noting() });
    managed.run({ leading: new Promise(() => {}) });
    await managed.sync({ [widgetsPath]: oneWidget });
    managed.abort();
    await managed.ended;
    expect(begun).toEqual([]);
  });
});
