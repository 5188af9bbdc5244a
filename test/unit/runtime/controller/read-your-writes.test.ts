import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { type AnyInformer, type CacheObserver, Store } from '../../../../src/runtime/cache/index.ts';
import type { Client } from '../../../../src/runtime/client/index.ts';
import type { ControllerOptions } from '../../../../src/runtime/controller/index.ts';
import { ReadYourWrites } from '../../../../src/runtime/controller/read-your-writes.ts';
import { controllerReference, done, type Kind } from '../../../../src/runtime/index.ts';
import type { Cause } from '../../../../src/runtime/queue/index.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { Part, Planet, partsPath, stored, Widget, widgetsPath } from '../../../../testkit/widgets.ts';
import { Managed } from '../../environment/managed.ts';
import type { Exchange, Stream } from '../../environment/scripted-server.ts';

let managed: Managed;
const options = { enqueue: () => {}, log: new RecordingLog() };
/** The names of all Widgets whose reconcile has begun, in order. */
let begun: string[];
let widgets: Stream;
let parts: Stream;

/** A controller of Widgets that owns Parts; `a` and `b` write as the test says, once, and other names do nothing. */
async function controller(
  writes: Readonly<Record<string, (client: Client) => Promise<unknown>>>,
  existing: readonly object[] | 'refused' = [],
  more: Partial<ControllerOptions<Widget>> = {},
): Promise<void> {
  managed.manager.controller(Widget, {
    ...more,
    owns: [Part],
    reconcile: async ({ name }, { client }) => {
      begun.push(name);
      if (times(name) === 1) await writes[name]?.(client);
      return done;
    },
  });
  managed.run();
  const items = Object.keys(writes).map((name, index) => stored(name, String(index + 1)));
  const synced = await managed.sync({ [widgetsPath]: { resourceVersion: '10', items } });
  widgets = synced[widgetsPath] as Stream;
  if (existing === 'refused') {
    (await managed.server.next({ path: partsPath })).refuse(403, 'Forbidden');
    return;
  }
  parts = (await managed.sync({ [partsPath]: { resourceVersion: '10', items: existing } }))[partsPath] as Stream;
}

beforeEach(async () => {
  managed = await Managed.start();
  begun = [];
});
afterEach(() => managed.close());

const times = (name: string): number => begun.filter((each) => each === name).length;
const reconciled = (name: string, count: number): Promise<boolean> =>
  eventually(`${name} is reconciled ${count} times, of ${begun}`, async () => times(name) >= count);

const createPart = (client: Client): Promise<unknown> =>
  client.create(Part, { metadata: { name: 'p', namespace: 'default' } });
const nextWrite = (method: string): Promise<Exchange> => managed.server.next({ method });

/** Has so many keys changed and reconciled, after which whatever could be reconciled before them has been. */
let others = 0;
async function othersGoOn(resourceVersion: string): Promise<void> {
  others += 1;
  widgets.send('ADDED', stored(`other-${others}`, resourceVersion));
  await reconciled(`other-${others}`, 1);
}

const partsReach = (resourceVersion: string): Promise<boolean> => {
  parts.send('BOOKMARK', { metadata: { resourceVersion } });
  return eventually(`the parts reach ${resourceVersion}`, async () =>
    managed.manager.informer(Part).hasReached(resourceVersion),
  );
};

/** The reconcile of the write's key has ended when the key could be taken again. */
async function settled(): Promise<void> {
  await eventually('no worker is at work', async () => {
    const labels = { controller: 'widget' };
    return (await managed.metric('controller_runtime_active_workers', labels)) === 0;
  });
}

describe('a key whose reconcile has written', () => {
  test('is not reconciled before the store has observed the write, while other keys are', async () => {
    await controller({ a: createPart });
    (await nextWrite('POST')).json(201, stored('p', '20'));
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    await partsReach('19');
    await othersGoOn('13');
    expect(times('a')).toBe(1);
    parts.send('ADDED', stored('p', '20'));
    await reconciled('a', 2);
  });

  test('is not reconciled again while one of its requests has no answer, although the reconcile has failed', async () => {
    const create = (client: Client, name: string) => client.create(Part, { metadata: { name, namespace: 'default' } });
    await controller({ a: (client) => Promise.all([create(client, 'p'), create(client, 'q')]) });
    const [refused, slow] = [await nextWrite('POST'), await nextWrite('POST')];
    refused.refuse(403, 'Forbidden');
    await settled();
    await eventually(
      'its retry is due',
      async () => (await managed.metric('workqueue_retries_total', { name: 'widget' })) === 1,
    );
    widgets.send('MODIFIED', stored('a', '11'));
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    slow.json(201, stored('q', '20'));
    await othersGoOn('13');
    expect(times('a')).toBe(1);
    parts.send('ADDED', stored('q', '20'));
    await reconciled('a', 2);
  });

  test('is not reconciled before the store has observed that the removal of the last finalizer has deleted an object', async () => {
    const terminating = stored('p', '5');
    Object.assign(terminating.metadata, { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['test.example/a'] });
    const released = {
      ...terminating,
      metadata: { ...terminating.metadata, deletionGracePeriodSeconds: 0, finalizers: [] },
    };
    const release = (client: Client) =>
      client.patch(
        Part,
        { name: 'p', namespace: 'default' },
        { type: 'merge', body: { metadata: { finalizers: null } } },
      );
    await controller({ a: release }, [terminating]);
    (await nextWrite('PATCH')).json(200, released);
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    parts.send('DELETED', { ...terminating, metadata: { ...terminating.metadata, resourceVersion: '20' } });
    await reconciled('a', 2);
  });

  test('is not enqueued by its own write, whose minimum is removed when it is observed', async () => {
    await controller({ a: createPart });
    (await nextWrite('POST')).json(201, stored('p', '20'));
    await settled();
    await partsReach('20');
    await othersGoOn('11');
    expect(times('a')).toBe(1);
    widgets.send('MODIFIED', stored('a', '12'));
    await reconciled('a', 2);
  });

  test('is reconciled once for all changes that arrived while it was deferred', async () => {
    await controller({ a: createPart });
    (await nextWrite('POST')).json(201, stored('p', '20'));
    await settled();
    for (const version of ['11', '12', '13']) {
      widgets.send('MODIFIED', stored('a', version));
      await othersGoOn(`${version}0`);
    }
    await partsReach('20');
    await reconciled('a', 2);
    await othersGoOn('200');
    expect(times('a')).toBe(2);
  });

  test('is deferred until its newest write is observed, in whatever order the responses arrive', async () => {
    await controller({
      a: (client) => Promise.all([createPart(client), client.delete(Part, { name: 'q', namespace: 'default' })]),
    });
    const [create, remove] = [await nextWrite('POST'), await nextWrite('DELETE')];
    remove.json(200, { kind: 'Part', ...stored('q', '30') });
    // Its answer is in before the other is sent.
    await remove.closed;
    await new Promise((resolve) => setImmediate(resolve));
    create.json(201, stored('p', '20'));
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    await partsReach('20');
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    await partsReach('30');
    await reconciled('a', 2);
  });

  test('is deferred until its writes of every kind are observed', async () => {
    await controller({
      a: async (client) => {
        await createPart(client);
        await client.mergeStatus(Widget, { name: 'a', namespace: 'default', resourceVersion: '1' }, {});
      },
    });
    (await nextWrite('POST')).json(201, stored('p', '20'));
    (await nextWrite('PATCH')).json(200, stored('a', '30'));
    await settled();
    await partsReach('20');
    widgets.send('MODIFIED', stored('a', '11'));
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    widgets.send('MODIFIED', stored('a', '30'));
    await reconciled('a', 2);
  });

  test('is deferred for a write in another version of the kind', async () => {
    const second: typeof Part = { ...Part, version: 'v2' };
    await controller({ a: (client) => client.create(second, { metadata: { name: 'p', namespace: 'default' } }) });
    (await nextWrite('POST')).json(201, stored('p', '20'));
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    await partsReach('20');
    await reconciled('a', 2);
  });

  test('is deferred only for its own writes, not for later writes of other keys', async () => {
    await controller({ a: createPart, b: createPart });
    (await nextWrite('POST')).json(201, stored('p', '30'));
    (await nextWrite('POST')).json(201, stored('p', '20'));
    await settled();
    const [later, earlier] = begun.slice(0, 2) as [string, string];
    widgets.send('MODIFIED', stored(later, '11'));
    widgets.send('MODIFIED', stored(earlier, '12'));
    await othersGoOn('13');
    expect([times('a'), times('b')]).toEqual([1, 1]);
    await partsReach('20');
    await reconciled(earlier, 2);
    expect(times(later)).toBe(1);
    await partsReach('30');
    await reconciled(later, 2);
  });

  test('is enqueued by a list that is newer than the write', async () => {
    await controller({ a: createPart });
    (await nextWrite('POST')).json(201, stored('p', '20'));
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    parts.send('ERROR', { kind: 'Status', code: 410, reason: 'Expired' });
    (await managed.server.next({ path: partsPath, watch: false })).list('25', [stored('p', '20')]);
    await reconciled('a', 2);
  });
});

describe('a key whose reconcile has read from the API server', () => {
  const key = { name: 'p', namespace: 'default' };

  test.each<[string, (client: Client) => Promise<unknown>]>([
    ['with get', (client) => client.get(Part, key)],
    ['with getMetadata', (client) => client.getMetadata(Part, key)],
  ])('%s is not reconciled before the store has observed that version', async (_, read) => {
    await controller({ a: read });
    const path = '/apis/test.example/v1/namespaces/default/parts/p';
    (await managed.server.next({ method: 'GET', path })).json(200, stored('p', '20'));
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    await partsReach('20');
    await reconciled('a', 2);
  });
});

describe('a key whose reconcile has deleted', () => {
  const gone = (exchange: Exchange): void => exchange.json(200, { kind: 'Status', status: 'Success' });
  const deletePart = (client: Client): Promise<unknown> => client.delete(Part, { name: 'p', namespace: 'default' });
  const withUid = (client: Client): Promise<unknown> =>
    client.delete(Part, { name: 'p', namespace: 'default' }, { uid: 'uid-p' });

  test.each([
    ['that the store holds', deletePart, gone],
    ['by uid', withUid, gone],
    [
      'whose response is the deleted object',
      deletePart,
      (exchange: Exchange) => exchange.json(200, { kind: 'Part', ...stored('p', '5') }),
    ],
  ])('an object %s is deferred until the store no longer holds it', async (_, remove, answer) => {
    await controller({ a: remove }, [stored('p', '5')]);
    answer(await nextWrite('DELETE'));
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    parts.send('MODIFIED', stored('p', '12'));
    await partsReach('15');
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    parts.send('DELETED', stored('p', '20'));
    await reconciled('a', 2);
  });

  test('a collection is deferred until the store holds none of its objects', async () => {
    await controller({ a: (client) => client.deleteCollection(Part, { namespace: 'default' }) }, [
      stored('p', '5'),
      stored('q', '6'),
    ]);
    (await nextWrite('DELETE')).list('12', [stored('p', '5'), stored('q', '6')]);
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    parts.send('DELETED', stored('p', '20'));
    await partsReach('20');
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    parts.send('MODIFIED', stored('q', '21', { deletionTimestamp: '2026-01-01T00:00:00Z' }));
    await reconciled('a', 2);
  });

  test('an object that no longer exists is deferred until the store observes that', async () => {
    await controller({ a: (client) => withUid(client).catch(() => {}) }, [stored('p', '5')]);
    (await nextWrite('DELETE')).refuse(404, 'NotFound', { details: { name: 'p', kind: 'parts' } });
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    parts.send('DELETED', stored('p', '20'));
    await reconciled('a', 2);
  });

  test('an object of a kind that is not served is not deferred', async () => {
    await controller({ a: (client) => withUid(client).catch(() => {}) }, [stored('p', '5')]);
    (await nextWrite('DELETE')).refuse(404, 'NotFound', { details: {} });
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    await reconciled('a', 2);
  });

  test('is no longer deferred when the store shows the object as terminating or recreated', async () => {
    await controller({ a: withUid, b: withUid }, [stored('p', '5')]);
    gone(await nextWrite('DELETE'));
    gone(await nextWrite('DELETE'));
    await settled();
    for (const name of ['a', 'b']) widgets.send('MODIFIED', stored(name, '11'));
    await othersGoOn('12');
    expect([times('a'), times('b')]).toEqual([1, 1]);
    parts.send('MODIFIED', stored('p', '12', { deletionTimestamp: '2026-01-01T00:00:00Z' }));
    await reconciled('a', 2);
    await reconciled('b', 2);
  });

  test('is enqueued by a list that no longer has the object', async () => {
    await controller({ a: withUid }, [stored('p', '5')]);
    gone(await nextWrite('DELETE'));
    await settled();
    parts.send('ERROR', { kind: 'Status', code: 410, reason: 'Expired' });
    (await managed.server.next({ path: partsPath, watch: false })).list('25', [stored('p', '21', { uid: 'new' })]);
    await reconciled('a', 2);
  });

  test('an object that the store has not observed is deferred until the store has observed its creation and its deletion', async () => {
    await controller({
      a: async (client) => {
        await createPart(client);
        await client.delete(Part, { name: 'p', namespace: 'default' });
      },
    });
    (await nextWrite('POST')).json(201, stored('p', '20'));
    gone(await nextWrite('DELETE'));
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    parts.send('ADDED', stored('p', '20'));
    await partsReach('20');
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    parts.send('DELETED', stored('p', '21'));
    await reconciled('a', 2);
  });

  test('an object with a finalizer is deferred only until the store observes the deletionTimestamp', async () => {
    await controller({ a: withUid }, [stored('p', '5')]);
    const terminating = stored('p', '20', { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['x'] });
    (await nextWrite('DELETE')).json(200, { kind: 'Part', ...terminating });
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    parts.send('MODIFIED', terminating);
    await reconciled('a', 2);
  });
});

describe('after a relist of a kind that a key wrote', () => {
  const expire = () => parts.send('ERROR', { kind: 'Status', code: 410, reason: 'Expired' });

  test('the key is reconciled, because an object created and deleted between two lists causes no event', async () => {
    await controller({ a: createPart });
    (await nextWrite('POST')).json(201, stored('p', '20'));
    await settled();
    expire();
    (await managed.server.next({ path: partsPath, watch: false })).list('25', []);
    await reconciled('a', 2);
    await othersGoOn('11');
    expect(times('a')).toBe(2);
  });

  test('that is older than the write, the key is reconciled when the write is observed', async () => {
    await controller({ a: createPart });
    expire();
    const list = await managed.server.next({ path: partsPath, watch: false });
    (await nextWrite('POST')).json(201, stored('p', '20'));
    await settled();
    list.list('15', []);
    parts = (await managed.server.next({ path: partsPath, watch: true })).stream();
    await othersGoOn('11');
    expect(times('a')).toBe(1);
    await partsReach('20');
    await reconciled('a', 2);
  });

  test('that arrives before the response to the write, the key is reconciled', async () => {
    await controller({ a: createPart });
    const write = await nextWrite('POST');
    expire();
    (await managed.server.next({ path: partsPath, watch: false })).list('25', []);
    await managed.server.next({ path: partsPath, watch: true });
    write.json(201, stored('p', '20'));
    await reconciled('a', 2);
    await othersGoOn('11');
    expect(times('a')).toBe(2);
  });

  test('other keys are not reconciled', async () => {
    await controller({ a: createPart, b: async () => {} });
    (await nextWrite('POST')).json(201, stored('p', '20'));
    await settled();
    expire();
    (await managed.server.next({ path: partsPath, watch: false })).list('25', []);
    await reconciled('a', 2);
    await othersGoOn('11');
    expect(times('b')).toBe(1);
  });
});

describe('a write that the watch does not deliver in time', () => {
  const observationTimeoutMs = 500;
  const replaced = () =>
    managed.metric('informer_watches_replaced_total', { controller: 'widget', resource: 'parts.test.example' });

  test('causes the watch to be replaced, which is counted and logged once', async () => {
    await controller({ a: createPart }, [], { observationTimeoutMs });
    (await nextWrite('POST')).json(201, stored('p', '20'));
    const resumed = await managed.server.next({ path: partsPath, watch: true });
    expect(resumed.query.get('resourceVersion')).toBe('10');
    widgets.send('MODIFIED', stored('a', '11'));
    resumed.stream().send('ADDED', stored('p', '20'));
    await reconciled('a', 2);
    expect(await replaced()).toBe(1);
    expect(managed.log.lines.filter(({ level }) => level === 'warn')).toEqual([
      {
        level: 'warn',
        message: 'the watch has not delivered our own write: replacing the watch',
        details: {
          controller: 'widget',
          object: 'default/a',
          resource: 'parts.test.example',
          written: 'default/p',
          version: '20',
          ageMs: expect.any(Number),
        },
      },
    ]);
  });

  test('causes a relist if the new watch does not deliver it either, and the key is enqueued', async () => {
    await controller({ a: (client) => client.delete(Part, { name: 'p', namespace: 'default' }) }, [stored('p', '5')], {
      observationTimeoutMs,
    });
    (await nextWrite('DELETE')).json(200, { kind: 'Status', status: 'Success' });
    (await managed.server.next({ path: partsPath, watch: true })).stream();
    (await managed.server.next({ path: partsPath, watch: false })).list('30', [stored('p', '5')]);
    await reconciled('a', 2);
    expect(await replaced()).toBe(2);
    expect(managed.log.messages('warn')).toHaveLength(1);
  });
});

describe('a write that is never observed while each watch ends soon', () => {
  test('causes a relist, after which the key is reconciled', async () => {
    const remove = (client: Client): Promise<unknown> =>
      client.delete(Part, { name: 'p', namespace: 'default' }, { uid: 'uid-p' }).catch(() => {});
    await controller({ a: remove }, [stored('p', '5')], { observationTimeoutMs: 500 });
    // Whoever answered this, it is not true: the object exists.
    (await nextWrite('DELETE')).refuse(409, 'Conflict');
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    const list = await afterShortWatches();
    expect(times('a')).toBe(1);
    list.list('99', [stored('p', '5')]);
    await reconciled('a', 2);
    expect(managed.log.messages('warn')).toContain('the watch has not delivered our own write: replacing the watch');
  });

  /** Ends each watch of Parts before it has been open for half of the timeout. @returns the next list of all Parts */
  async function afterShortWatches(): Promise<Exchange> {
    parts.end();
    for (let version = 11; ; version++) {
      const request = await managed.server.next({ path: partsPath });
      const isVerification = request.query.get('limit') === '1';
      if (isVerification) request.list(String(version), []);
      else if (request.query.get('watch') !== 'true') return request;
      else {
        const watch = request.stream();
        // After a watch that delivers something the next one follows without a pause.
        watch.send('BOOKMARK', { metadata: { resourceVersion: String(version) } });
        watch.end();
      }
    }
  }
});

describe('a Conflict', () => {
  const mergeStatus = (client: Client): Promise<unknown> =>
    client.mergeStatus(Widget, { name: 'a', namespace: 'default', resourceVersion: '1' }, {});
  const conflict = async (): Promise<Exchange> => {
    (await nextWrite('PATCH')).refuse(409, 'Conflict');
    return managed.server.next({ method: 'GET', path: '/apis/test.example/v1/namespaces/default/widgets/a' });
  };

  test('defers the key until the store holds the object as it is now, and replaces a watch that died silently', async () => {
    await controller({ a: mergeStatus }, [], { observationTimeoutMs: 500 });
    (await conflict()).json(200, stored('a', '20'));
    const resumed = await managed.server.next({ path: widgetsPath, watch: true });
    expect(times('a')).toBe(1);
    resumed.stream().send('MODIFIED', stored('a', '20'));
    await reconciled('a', 2);
    const labels = { controller: 'widget', resource: 'widgets.test.example' };
    expect(await managed.metric('informer_watches_replaced_total', labels)).toBe(1);
  });

  test('is retried if the object cannot be read', async () => {
    await controller({ a: mergeStatus });
    (await conflict()).refuse(403, 'Forbidden');
    await reconciled('a', 2);
  });
});

describe('a status write without an answer', () => {
  const readOfWidget = () =>
    managed.server.next({ method: 'GET', path: '/apis/test.example/v1/namespaces/default/widgets/a' });

  test('defers the key until the store shows what the API server has', async () => {
    await controller({
      a: (client) => client.mergeStatus(Widget, { name: 'a', namespace: 'default', resourceVersion: '1' }, {}),
    });
    (await nextWrite('PATCH')).cut();
    (await readOfWidget()).json(200, stored('a', '20'));
    await othersGoOn('15');
    expect(times('a')).toBe(1);
    widgets.send('MODIFIED', stored('a', '20'));
    await reconciled('a', 2);
  });
});

describe('a write of a child that is not as the cache shows it, because its watch died silently', () => {
  const child = { name: 'p', namespace: 'default' };
  const readOfChild = () =>
    managed.server.next({ method: 'GET', path: '/apis/test.example/v1/namespaces/default/parts/p' });
  const observationTimeoutMs = 500;
  const applyWithUid = (client: Client): Promise<unknown> =>
    client.apply(Part, { metadata: child }, { force: true, uid: 'uid-p' });

  test('defers the key until the cache shows that the child is gone', async () => {
    await controller({ a: applyWithUid }, [stored('p', '5')], { observationTimeoutMs });
    (await nextWrite('PATCH')).refuse(409, 'Conflict');
    (await readOfChild()).refuse(404, 'NotFound', { details: { name: 'p' } });
    const resumed = await managed.server.next({ path: partsPath, watch: true });
    expect(times('a')).toBe(1);
    resumed.stream().send('DELETED', stored('p', '20'));
    await reconciled('a', 2);
  });

  test('defers the key until the cache shows the child that took its place', async () => {
    await controller({ a: applyWithUid }, [stored('p', '5')], { observationTimeoutMs });
    const causes = [{ reason: 'FieldValueInvalid', field: 'metadata.uid', message: 'field is immutable' }];
    (await nextWrite('PATCH')).refuse(422, 'Invalid', { details: { causes } });
    (await readOfChild()).json(200, {
      ...stored('p', '20'),
      metadata: { ...stored('p', '20').metadata, uid: 'other' },
    });
    const resumed = await managed.server.next({ path: partsPath, watch: true });
    expect(times('a')).toBe(1);
    resumed.stream().send('BOOKMARK', { metadata: { resourceVersion: '20' } });
    await reconciled('a', 2);
  });

  test('defers the key until the cache shows the child that a create found', async () => {
    await controller({ a: createPart }, [], { observationTimeoutMs });
    (await nextWrite('POST')).refuse(409, 'AlreadyExists');
    (await readOfChild()).json(200, stored('p', '20'));
    const resumed = await managed.server.next({ path: partsPath, watch: true });
    expect(times('a')).toBe(1);
    resumed.stream().send('ADDED', stored('p', '20'));
    await reconciled('a', 2);
  });

  test('defers the key of a patch that found nothing until the cache shows the deletion', async () => {
    const patch = (client: Client): Promise<unknown> => client.patch(Part, child, { type: 'merge', body: {} });
    await controller({ a: patch }, [stored('p', '5')], { observationTimeoutMs });
    (await nextWrite('PATCH')).refuse(404, 'NotFound', { details: { name: 'p' } });
    const resumed = await managed.server.next({ path: partsPath, watch: true });
    expect(times('a')).toBe(1);
    resumed.stream().send('DELETED', stored('p', '20'));
    await reconciled('a', 2);
  });
});

describe('a delete with a uid that another object has the name of', () => {
  test('defers the key until the cache no longer shows the uid', async () => {
    const remove = (client: Client): Promise<unknown> =>
      client.delete(Part, { name: 'p', namespace: 'default' }, { uid: 'uid-p' }).catch(() => {});
    await controller({ a: remove }, [stored('p', '5')], { observationTimeoutMs: 500 });
    (await nextWrite('DELETE')).refuse(409, 'Conflict');
    const resumed = await managed.server.next({ path: partsPath, watch: true });
    widgets.send('MODIFIED', stored('a', '11'));
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    resumed.stream().send('DELETED', stored('p', '20'));
    await reconciled('a', 2);
  });
});

describe('a write that is not delivered because no watch is open', () => {
  test('is delivered by the next watch, which is not counted as replaced', async () => {
    await controller({ a: createPart }, [], { observationTimeoutMs: 200 });
    const write = await nextWrite('POST');
    // The pause after that is longer than both times.
    parts.cut();
    write.json(201, stored('p', '20'));
    const verify = await managed.server.next({ path: partsPath, watch: false });
    expect(verify.query.get('limit')).toBe('1');
    expect(managed.log.messages('warn')).toEqual(['list or watch failed: trying again']);
    widgets.send('MODIFIED', stored('a', '11'));
    verify.list('10', []);
    const resumed = await managed.server.next({ path: partsPath, watch: true });
    expect(resumed.query.get('resourceVersion')).toBe('10');
    resumed.stream().send('ADDED', stored('p', '20'));
    await reconciled('a', 2);
  });
});

describe('an optional kind that is unavailable', () => {
  const forbidden = (exchange: Exchange): void => exchange.refuse(403, 'Forbidden');

  test('defers no key', async () => {
    managed.manager.informer(Part, { optional: true });
    await controller({ a: createPart }, 'refused');
    (await nextWrite('POST')).json(201, stored('p', '20'));
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    await reconciled('a', 2);
  });

  test('enqueues the keys that wrote to it at its next list: the object may have been deleted since', async () => {
    managed.manager.informer(Part, { optional: true });
    await controller({ a: createPart }, 'refused');
    (await nextWrite('POST')).json(201, stored('p', '20'));
    await settled();
    (await managed.server.next({ path: partsPath })).list('30', []);
    await reconciled('a', 2);
    await othersGoOn('31');
    expect(times('a')).toBe(2);
  });

  test('enqueues its deferred keys when it is refused', async () => {
    managed.manager.informer(Part, { optional: true });
    await controller({ a: createPart });
    (await nextWrite('POST')).json(201, stored('p', '20'));
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    parts.end();
    forbidden(await managed.server.next({ path: partsPath }));
    await reconciled('a', 2);
  });
});

describe('a kind that is not optional and becomes unavailable', () => {
  /** Refuses the next watch after the check for a restored server. */
  async function refuseWatch(): Promise<void> {
    parts.end();
    (await managed.server.next({ path: partsPath, watch: false })).list('10', []);
    (await managed.server.next({ path: partsPath, watch: true })).refuse(403, 'Forbidden');
  }

  test('defers the key until its watch has delivered the write', async () => {
    await controller({ a: createPart });
    (await nextWrite('POST')).json(201, stored('p', '20'));
    await settled();
    await refuseWatch();
    widgets.send('MODIFIED', stored('a', '11'));
    await othersGoOn('12');
    expect(times('a')).toBe(1);
    const resumed = (await managed.server.next({ path: partsPath, watch: true })).stream();
    await othersGoOn('13');
    expect(times('a')).toBe(1);
    resumed.send('ADDED', stored('p', '20'));
    await reconciled('a', 2);
  });

  test('does not defer the key for longer than 30 times the time of one watch, but until then', async () => {
    await controller({ a: createPart }, [], { observationTimeoutMs: 20 });
    await refuseWatch();
    const writtenAtMs = performance.now();
    (await nextWrite('POST')).json(201, stored('p', '20'));
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    await reconciled('a', 2);
    expect(performance.now() - writtenAtMs).toBeGreaterThanOrEqual(600);
    expect(managed.log.messages('warn')).toContain(
      'the server forbids the watch that delivers our own write, or does not serve the kind: reconciling from a stale cache',
    );
  });
});

test('a refused namespace does not remove the minimums of other namespaces', async () => {
  const pathOf = (namespace: string): string => `/apis/test.example/v1/namespaces/${namespace}/parts`;
  managed.manager.informer(Part, { namespaces: ['default', 'deleted'] });
  managed.manager.controller(Widget, {
    owns: [Part],
    reconcile: async ({ name }, { client }) => {
      begun.push(name);
      if (name === 'a' && times(name) === 1) await createPart(client);
      return done;
    },
  });
  managed.run();
  const synced = await managed.sync({
    [widgetsPath]: { resourceVersion: '10', items: [stored('a', '1')] },
    [pathOf('default')]: { resourceVersion: '10' },
    [pathOf('deleted')]: { resourceVersion: '10' },
  });
  widgets = synced[widgetsPath] as Stream;
  (await nextWrite('POST')).json(201, stored('p', '20'));
  await settled();
  widgets.send('MODIFIED', stored('a', '11'));
  synced[pathOf('deleted')]?.end();
  (await managed.server.next({ path: pathOf('deleted') })).refuse(403, 'Forbidden');
  // The refusal has been heard when the kind is asked for again.
  (await managed.server.next({ path: pathOf('deleted') })).refuse(403, 'Forbidden');
  await othersGoOn('12');
  expect(times('a')).toBe(1);
  synced[pathOf('default')]?.send('ADDED', stored('p', '20'));
  await reconciled('a', 2);
});

test('deferred keys are enqueued when the server was restored from a backup', async () => {
  await controller(
    {
      a: createPart,
      b: (client) => client.delete(Part, { name: 'p', namespace: 'default' }, { uid: 'uid-p' }),
    },
    [stored('p', '5')],
  );
  (await nextWrite('POST')).json(201, stored('q', '50'));
  (await nextWrite('DELETE')).json(200, { kind: 'Status', status: 'Success' });
  await settled();
  await othersGoOn('12');
  expect([times('a'), times('b')]).toEqual([1, 1]);
  parts.cut();
  (await managed.server.next({ path: partsPath, watch: false })).list('9', []);
  (await managed.server.next({ path: partsPath, watch: false })).list('9', [stored('p', '5')]);
  await reconciled('a', 2);
  await reconciled('b', 2);
});

test('a key that is reconciled while the server is restored is enqueued again', async () => {
  const gate = Promise.withResolvers<void>();
  await controller({
    a: async (client) => {
      await createPart(client);
      await gate.promise;
    },
  });
  (await nextWrite('POST')).json(201, stored('p', '50'));
  await othersGoOn('12');
  parts.cut();
  (await managed.server.next({ path: partsPath, watch: false })).list('9', []);
  (await managed.server.next({ path: partsPath, watch: false })).list('9', []);
  await managed.server.next({ path: partsPath, watch: true });
  gate.resolve();
  await reconciled('a', 2);
});

test('detach removes its observers from the informers', () => {
  const calls: string[] = [];
  const informer = { kind: Part, namespaces: undefined, observe: () => () => calls.push('removed') };
  const writes = new ReadYourWrites([informer as unknown as AnyInformer], options);
  writes.detach();
  writes.detach();
  expect(calls).toEqual(['removed']);
});

test('after detach, a later response sets no minimum and no watch is replaced', async () => {
  let replaced = 0;
  const informer = {
    kind: Part,
    namespaces: undefined,
    observe: () => () => {},
    coverage: () => 'watched',
    unavailableForMs: () => 0,
    store: new Store<Part>(),
    hasReached: () => false,
    replaceWatch: () => {
      replaced += 1;
      return 'replaced';
    },
  };
  const writes = new ReadYourWrites([informer as unknown as AnyInformer], { ...options, timeoutMs: 5 });
  const written = createPart(writes.client(managed.client, 'default/a', new AbortController().signal));
  const write = await nextWrite('POST');
  writes.detach();
  write.json(201, stored('p', '20'));
  await written;
  expect(writes.defer('default/a')).toBe(false);
  expect(replaced).toBe(0);
});

/** An informer of a kind as ReadYourWrites sees it, whose progress the test decides. */
function informerOf(kind: Kind) {
  const cache = { version: 10, observer: undefined as CacheObserver | undefined };
  const informer = {
    kind,
    namespaces: undefined,
    observe: (observer: CacheObserver) => {
      cache.observer = observer;
      return () => {};
    },
    coverage: () => 'watched',
    store: new Store<Part>(),
    hasReached: (version: string) => Number(version) <= cache.version,
  };
  return { cache, informer: informer as unknown as AnyInformer };
}

describe('a key that is deferred when a kind is listed or reset', () => {
  const retry: Cause = { type: 'retry' };
  const relist: Cause = { type: 'relist' };

  /** A key that has written a Part and a Widget, each in version 20, and was deferred because of a retry. */
  async function deferred() {
    const [ofParts, ofWidgets] = [informerOf(Part), informerOf(Widget)];
    const enqueued: Cause[] = [];
    const writes = new ReadYourWrites([ofParts.informer, ofWidgets.informer], {
      ...options,
      enqueue: (_, cause) => enqueued.push(cause),
    });
    const client = writes.client(managed.client, 'default/a', new AbortController().signal);
    const written = [createPart(client), client.create(Widget, stored('w', '0'))];
    const pathOf = (resource: string): string => `/apis/test.example/v1/namespaces/default/${resource}`;
    (await managed.server.next({ method: 'POST', path: pathOf('parts') })).json(201, stored('p', '20'));
    (await managed.server.next({ method: 'POST', path: pathOf('widgets') })).json(201, stored('w', '20'));
    await Promise.all(written);
    expect(writes.defer('default/a', { causes: [retry] })).toBe(true);
    const observe = ({ cache }: typeof ofParts): void => {
      cache.version = 20;
      cache.observer?.progressed(undefined);
    };
    const list = ({ cache }: typeof ofParts): void => {
      cache.version = 20;
      cache.observer?.listed(undefined, performance.now());
    };
    const reset = ({ cache }: typeof ofParts): void => cache.observer?.reset(undefined);
    return { writes, enqueued, ofParts, ofWidgets, observe, list, reset };
  }

  test.each(['list', 'reset'] as const)('says after a %s why it was deferred', async (event) => {
    const world = await deferred();
    world.observe(world.ofWidgets);
    world[event](world.ofParts);
    const how = event === 'list' ? 'observed' : 'reset';
    expect(world.enqueued).toEqual([expect.objectContaining({ type: 'observed', how, before: retry }), relist]);
    world.writes.detach();
  });

  test('keeps its time and its causes while it waits for another kind', async () => {
    const { writes, enqueued, ofParts, ofWidgets, observe, list } = await deferred();
    const sinceMs = writes.deferredSinceMs('default/a');
    list(ofParts);
    expect(writes.deferredSinceMs('default/a')).toBe(sinceMs);
    expect(enqueued).toEqual([]);
    observe(ofWidgets);
    expect(enqueued).toEqual([expect.objectContaining({ deferredAtMs: sinceMs, before: retry }), relist]);
    writes.detach();
  });
});

test('a deferred key is enqueued once: after its last request is answered, although its minimum was observed before', async () => {
  const enqueued: unknown[] = [];
  const cache = { version: 10, progressed: () => {} };
  const informer = {
    kind: Part,
    namespaces: undefined,
    observe: ({ progressed }: { progressed: (namespace: undefined) => void }) => {
      cache.progressed = () => progressed(undefined);
      return () => {};
    },
    coverage: () => 'watched',
    store: new Store<Part>(),
    hasReached: (version: string) => Number(version) <= cache.version,
  };
  const writes = new ReadYourWrites([informer as unknown as AnyInformer], {
    ...options,
    enqueue: (key, cause) => enqueued.push([key, cause]),
  });
  const client = writes.client(managed.client, 'default/a', new AbortController().signal);
  const created = [createPart(client), createPart(client)];
  const [first, second] = [await nextWrite('POST'), await nextWrite('POST')];
  first.json(201, stored('p', '20'));
  await Promise.race(created);
  expect(writes.defer('default/a', { causes: [{ type: 'retry' }] })).toBe(true);
  cache.version = 20;
  cache.progressed();
  expect(enqueued).toEqual([]);
  second.json(201, stored('q', '15'));
  await Promise.all(created);
  expect(enqueued).toEqual([
    ['default/a', expect.objectContaining({ type: 'observed', how: 'answered', before: { type: 'retry' } })],
  ]);
  writes.detach();
});

describe('a key is not deferred', () => {
  test.each<[string, (client: Client) => Promise<unknown>, (exchange: Exchange) => void]>([
    ['for a write that the store has observed', createPart, (exchange) => exchange.json(201, stored('p', '9'))],
    [
      'for a write to a kind that the controller does not read',
      (client) => client.create(Planet, { metadata: { name: 'earth' } }),
      (exchange) => exchange.json(201, stored('earth', '99')),
    ],
    [
      'for a deletion of an object that the store does not hold',
      (client) => client.delete(Part, { name: 'p', namespace: 'default' }),
      (exchange) => exchange.json(200, { kind: 'Status', status: 'Success' }),
    ],
    [
      'for a refused write',
      (client) => createPart(client).catch(() => {}),
      (exchange) => exchange.refuse(403, 'Forbidden'),
    ],
    [
      'for a read of a version that the store has observed',
      (client) => client.get(Part, { name: 'p', namespace: 'default' }),
      (exchange) => exchange.json(200, stored('p', '9')),
    ],
    [
      'for a read of an object that does not exist',
      (client) => client.get(Part, { name: 'p', namespace: 'default' }).catch(() => {}),
      (exchange) => exchange.refuse(404, 'NotFound', { details: { name: 'p' } }),
    ],
    [
      'for a subresource that its kind does not have',
      (client) => client.getScale(Part, { name: 'p', namespace: 'default' }).catch(() => {}),
      (exchange) => exchange.refuse(404, 'NotFound', { details: { name: 'p' } }),
    ],
    [
      'for a dry run that finds its name taken',
      (client) =>
        client.create(Part, { metadata: { name: 'p', namespace: 'default' } }, { dryRun: true }).catch(() => {}),
      (exchange) => exchange.refuse(409, 'AlreadyExists'),
    ],
    [
      'for a dry run, whose object has no resourceVersion',
      (client) => client.create(Part, { metadata: { name: 'p', namespace: 'default' } }, { dryRun: true }),
      (exchange) => {
        const { resourceVersion: _, ...metadata } = stored('p', '99').metadata;
        exchange.json(201, { metadata });
      },
    ],
  ])('%s', async (_, write, answer) => {
    await controller({ a: write });
    answer(await managed.server.next({ watch: false }));
    await settled();
    widgets.send('MODIFIED', stored('a', '11'));
    await reconciled('a', 2);
    expect(managed.log.messages('error')).toEqual([]);
  });
});

describe('the client of a reconcile', () => {
  const key = { name: 'p', namespace: 'default' };
  const requests: readonly [string, (client: Client, signal?: AbortSignal) => Promise<unknown>][] = [
    ['get', (client, signal) => client.get(Part, key, signal && { signal })],
    ['list', (client, signal) => client.list(Part, signal && { signal })],
    ['create', (client, signal) => client.create(Part, { metadata: key }, signal && { signal })],
    ['apply', (client, signal) => client.apply(Part, { metadata: key }, signal && { signal })],
    [
      'mergeStatus',
      (client, signal) => client.mergeStatus(Part, { ...key, resourceVersion: '1' }, {}, signal && { signal }),
    ],
    ['delete', (client, signal) => client.delete(Part, key, signal && { signal })],
  ];

  test.each(requests)('aborts %s with the signal of the reconcile', async (_, request) => {
    const reconcile = new AbortController();
    const client = new ReadYourWrites([], options).client(managed.client, 'default/a', reconcile.signal);
    const ended = expect(request(client)).rejects.toThrow('time is over');
    await managed.server.next();
    reconcile.abort(new Error('time is over'));
    await ended;
  });

  test.each(requests)('aborts %s that has its own signal with either signal', async (_, request) => {
    for (const which of ['reconcile', 'own'] as const) {
      const signals = { reconcile: new AbortController(), own: new AbortController() };
      const client = new ReadYourWrites([], options).client(managed.client, 'default/a', signals.reconcile.signal);
      const ended = expect(request(client, signals.own.signal)).rejects.toThrow('time is over');
      await managed.server.next();
      signals[which].abort(new Error('time is over'));
      await ended;
    }
  });

  test('passes watches to the client', async () => {
    const { signal } = new AbortController();
    const client = new ReadYourWrites([], options).client(managed.client, 'default/a', signal);
    const first = (async () => {
      for await (const event of client.watch(Part, { resourceVersion: '5', timeoutSeconds: 60, signal })) return event;
      return undefined;
    })();
    (await managed.server.next({ watch: true })).stream().send('ADDED', stored('p', '6'));
    expect(await first).toEqual({ type: 'ADDED', object: stored('p', '6') });
  });
});

describe('a controller that ignores its own writes', () => {
  const key = { namespace: 'default', name: 'a' };
  const patchStatus = (client: Client) =>
    client.mergeStatus(Widget, { ...key, resourceVersion: '1' }, { phase: 'Ready' });
  const create = async (client: Client) => {
    await createPart(client);
    await patchStatus(client);
  };
  const ignoresOwnWrites = { ignoresOwnWrites: true } as const;
  const ownPart = (resourceVersion: string) =>
    stored('p', resourceVersion, { uid: 'of-p', ownerReferences: [controllerReference(Widget, stored('a', '1'))] });
  const written = (resourceVersion: string) => ({ ...stored('a', resourceVersion), status: { phase: 'Ready' } });
  /** Answers the two writes of `create`. */
  async function answer(status = written('21')): Promise<void> {
    (await nextWrite('POST')).json(201, ownPart('20'));
    (await nextWrite('PATCH')).json(200, status);
    await settled();
  }

  test('does not reconcile a key for the object that it has created and the status that it has written', async () => {
    await controller({ a: create }, [], ignoresOwnWrites);
    await answer();
    parts.send('ADDED', ownPart('20'));
    await partsReach('20');
    widgets.send('MODIFIED', written('21'));
    await othersGoOn('22');
    expect(times('a')).toBe(1);
    parts.send('MODIFIED', { ...ownPart('23'), spec: { size: 2 } });
    await reconciled('a', 2);
    widgets.send('MODIFIED', { ...written('24'), status: { phase: 'Edited' } });
    await reconciled('a', 3);
  });

  test('reconciles it for them if it does not say so', async () => {
    await controller({ a: create });
    await answer();
    parts.send('ADDED', ownPart('20'));
    await partsReach('20');
    widgets.send('MODIFIED', written('21'));
    await reconciled('a', 2);
  });

  test('reconciles a key that was deferred because of another change', async () => {
    await controller({ a: create }, [], ignoresOwnWrites);
    await answer();
    // Before its write.
    widgets.send('MODIFIED', { ...stored('a', '19'), status: { phase: 'Edited' } });
    await othersGoOn('20');
    expect(times('a')).toBe(1);
    parts.send('ADDED', ownPart('20'));
    widgets.send('MODIFIED', written('21'));
    await reconciled('a', 2);
  });

  test('reconciles a key whose event comes before the response', async () => {
    await controller({ a: create }, [], ignoresOwnWrites);
    const created = await nextWrite('POST');
    parts.send('ADDED', ownPart('20'));
    await partsReach('20');
    created.json(201, ownPart('20'));
    (await nextWrite('PATCH')).json(200, written('21'));
    await settled();
    widgets.send('MODIFIED', written('21'));
    await reconciled('a', 2);
  });

  test('reconciles a key for another object that was created at the same version', async () => {
    await controller({ a: create }, [], ignoresOwnWrites);
    await answer();
    widgets.send('MODIFIED', written('21'));
    parts.send('ADDED', { ...ownPart('20'), metadata: { ...ownPart('20').metadata, name: 'q', uid: 'of-q' } });
    await reconciled('a', 2);
  });

  test('reconciles a key for a change of its child, also its own', async () => {
    const manifest = { metadata: { name: 'p', namespace: 'default' }, spec: { size: 2 } };
    await controller(
      { a: (client) => client.apply(Part, manifest, { force: true }) },
      [ownPart('9')],
      ignoresOwnWrites,
    );
    await reconciled('a', 1);
    const applied = { ...ownPart('20'), spec: { size: 2 } };
    (await nextWrite('PATCH')).json(200, applied);
    await settled();
    parts.send('MODIFIED', applied);
    await reconciled('a', 2);
  });

  test('reconciles a key for a change of the spec that a transform has dropped', async () => {
    const informer = { transform: ({ spec: _, ...rest }: ReturnType<typeof stored>) => rest };
    await controller({ a: patchStatus }, [], { ...ignoresOwnWrites, informer });
    const changed = { ...written('21'), metadata: { ...written('21').metadata, generation: 2 }, spec: { size: 2 } };
    (await nextWrite('PATCH')).json(200, changed);
    await settled();
    widgets.send('MODIFIED', changed);
    await reconciled('a', 2);
  });

  test('reconciles a key whose status write changed nothing, for the change of another client that its response shows', async () => {
    await controller({ a: create }, [], ignoresOwnWrites);
    const changed = { ...written('21'), spec: { size: 2 } };
    await answer(changed);
    parts.send('ADDED', ownPart('20'));
    await partsReach('20');
    widgets.send('MODIFIED', changed);
    await reconciled('a', 2);
  });

  test('reconciles a key for the creation of another client, which it has read', async () => {
    await controller({ a: (client) => client.get(Part, { ...key, name: 'p' }) }, [], ignoresOwnWrites);
    (await nextWrite('GET')).json(200, ownPart('20'));
    await settled();
    parts.send('ADDED', ownPart('20'));
    await reconciled('a', 2);
  });

  test('reconciles a key for a change other than of a status, also its own', async () => {
    await controller({ a: (client) => client.patch(Widget, key, { type: 'merge', body: {} }) }, [], ignoresOwnWrites);
    (await nextWrite('PATCH')).json(200, stored('a', '20', { labels: { app: 'a' } }));
    await settled();
    widgets.send('MODIFIED', stored('a', '20', { labels: { app: 'a' } }));
    await reconciled('a', 2);
  });

  test('reconciles a key whose created object was deleted and created again', async () => {
    await controller({ a: create }, [], ignoresOwnWrites);
    await answer();
    parts.send('ADDED', ownPart('20'));
    widgets.send('MODIFIED', written('21'));
    parts.send('DELETED', ownPart('22'));
    await reconciled('a', 2);
    parts.send('ADDED', { ...ownPart('23'), metadata: { ...ownPart('23').metadata, uid: 'another' } });
    await reconciled('a', 3);
  });
});
