import { Applier, controllerReference, done, type KubeObject, keyOf, watches } from '@echoperator/runtime';
import type { InformerOptions } from '@echoperator/runtime/cache';
import type { Client } from '@echoperator/runtime/client';
import { Namespace } from '@echoperator/runtime/kinds';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { eventually } from '../../../../testkit/eventually.ts';
import { Part, partsPath, stored, Widget, widgetsPath } from '../../../../testkit/widgets.ts';
import { Managed } from '../../environment/managed.ts';
import type { Exchange, Stream } from '../../environment/scripted-server.ts';

let managed: Managed;
/** The names of all Widgets whose reconcile has begun, in order. */
let begun: string[];
let widgets: Stream;
let parts: Stream;

beforeEach(async () => {
  managed = await Managed.start();
  begun = [];
});
afterEach(() => managed.close());

const times = (name: string): number => begun.filter((each) => each === name).length;
const reconciled = (name: string, count: number): Promise<boolean> =>
  eventually(`${name} is reconciled ${count} times, of ${begun}`, async () => times(name) >= count);

const widgetKey = { name: 'a', namespace: 'default' };
const partKey = { name: 'p', namespace: 'default' };
const path = (plural: string, name: string): string => `/apis/test.example/v1/namespaces/default/${plural}/${name}`;

type Act = (client: Client, run: number) => Promise<unknown>;

interface Setup {
  readonly existing?: readonly object[];
  readonly widget?: object;
  readonly partInformer?: InformerOptions<Part>;
}

/** A controller of Widgets without a predicate, which also gets the change of each Part named `p` for Widget `a`. */
async function controller(
  act: Act,
  { existing = [], widget = stored('a', '1'), partInformer }: Setup = {},
): Promise<void> {
  const options = partInformer === undefined ? {} : { informer: partInformer };
  managed.manager.controller(Widget, {
    watches: [watches(Part, ({ metadata }) => (metadata.name === 'p' ? [widgetKey] : []), options)],
    reconcile: async ({ name }, { client }) => {
      begun.push(name);
      if (name === 'a') await act(client, times('a'));
      return done;
    },
  });
  managed.run();
  const synced = await managed.sync({
    [widgetsPath]: { resourceVersion: '10', items: [widget] },
    [partsPath]: { resourceVersion: '10', items: existing },
  });
  widgets = synced[widgetsPath] as Stream;
  parts = synced[partsPath] as Stream;
}

const firstOnly =
  (act: (client: Client) => Promise<unknown>): Act =>
  async (client, run) => {
    if (run === 1) await act(client);
  };

const next = (method: string): Promise<Exchange> => managed.server.next({ method });

/** Has so many keys changed and reconciled: whatever could be reconciled before them has been. */
let others = 0;
async function othersGoOn(resourceVersion: string): Promise<void> {
  others += 1;
  widgets.send('ADDED', stored(`other-${others}`, resourceVersion));
  await reconciled(`other-${others}`, 1);
}

const partInStore = (): string | undefined =>
  managed.manager.informer(Part).store.get(partKey)?.metadata.resourceVersion;
const widgetInStore = (): KubeObject | undefined => managed.manager.informer(Widget).store.get(widgetKey);

const createPart = (client: Client): Promise<unknown> => client.create(Part, { metadata: partKey, spec: { size: 1 } });

describe('the store', () => {
  test('shows what a reconcile has created before the reconcile goes on, and its event changes nothing', async () => {
    const shown: (string | undefined)[] = [];
    await controller(
      firstOnly(async (client) => {
        const created = await createPart(client);
        shown.push(partInStore());
        // The reconcile may do with the response what it likes.
        (created as { metadata: { name: string } }).metadata.name = 'changed';
      }),
    );
    (await next('POST')).json(201, stored('p', '20'));
    await eventually('the response', async () => shown.length === 1);
    expect(shown).toEqual(['20']);
    parts.send('ADDED', stored('p', '20'));
    await othersGoOn('30');
    expect(times('a')).toBe(1);
    expect(managed.manager.informer(Part).store.get(partKey)?.metadata.name).toBe('p');
  });

  test('does not show what it has deleted, and the deletion enqueues the key', async () => {
    const shown: (string | undefined)[] = [];
    await controller(
      firstOnly(async (client) => {
        await client.delete(Part, partKey, { uid: 'uid-p' });
        shown.push(partInStore());
      }),
      { existing: [stored('p', '5')] },
    );
    (await next('DELETE')).json(200, { kind: 'Status', apiVersion: 'v1', status: 'Success' });
    await reconciled('a', 2);
    expect(shown).toEqual([undefined]);
    // An older event does not bring it back.
    parts.send('MODIFIED', stored('p', '8'));
    await eventually('the event', async () => managed.manager.informer(Part).hasReached('8'));
    expect(partInStore()).toBeUndefined();
  });

  test('does not show an object whose last finalizer was removed while it was being deleted', async () => {
    const leaving = { deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 0 };
    await controller(
      firstOnly((client) => client.patch(Part, partKey, { type: 'merge', body: { metadata: { finalizers: null } } })),
      { existing: [stored('p', '5', { ...leaving, finalizers: ['x/y'] })] },
    );
    (await next('PATCH')).json(200, stored('p', '5', leaving));
    await reconciled('a', 2);
    expect(partInStore()).toBeUndefined();
  });

  test('takes neither a dry run, nor the scale, nor a list, nor the metadata alone', async () => {
    let isDone = false;
    await controller(
      firstOnly(async (client) => {
        await client.create(Part, { metadata: partKey }, { dryRun: true });
        await client.patch(Part, partKey, { type: 'merge', body: {} }, { subresource: 'scale' });
        await client.list(Part, { namespace: 'default' });
        await client.getMetadata(Part, partKey);
        isDone = true;
      }),
    );
    (await next('POST')).json(201, stored('p', '20'));
    (await next('PATCH')).json(200, stored('p', '21'));
    (await next('GET')).list('22', [stored('p', '22')]);
    (await next('GET')).json(200, stored('p', '23'));
    await eventually('the responses', async () => isDone);
    expect(partInStore()).toBeUndefined();
  });

  test('keeps a prepared copy of the response', async () => {
    await controller(firstOnly(createPart), {
      partInformer: { freeze: true, transform: ({ metadata }) => ({ metadata }) as Part },
    });
    const managedFields = [{ manager: 'tester', operation: 'Update' }];
    const part = stored('p', '20');
    (await next('POST')).json(201, { ...part, metadata: { ...part.metadata, managedFields }, spec: { size: 1 } });
    await eventually('the response', async () => partInStore() === '20');
    const held = managed.manager.informer(Part).store.get(partKey);
    expect(held).toEqual(part);
    expect(Object.isFrozen(held)).toBe(true);
  });
});

describe('a response that cannot be read whole', () => {
  const deep = (levels: number): object => JSON.parse(`${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`);

  test('is shown as what can be read of it, which the reconcile cannot change', async () => {
    type Response = Part & { readonly metadata: { readonly labels: object }; readonly status: object };
    let response: Response | undefined;
    await controller(
      firstOnly(async (client) => {
        response = (await createPart(client)) as Response;
        for (const part of [response.metadata, response.metadata.labels, response.status])
          Object.assign(part, { name: 'changed' });
      }),
    );
    const managedFields = [{ manager: 'tester', operation: 'Update' }];
    const part = stored('p', '20', { labels: { x: '1' }, managedFields } as object);
    (await next('POST')).json(201, { ...part, spec: deep(600), status: { phase: 'Running' } });
    await eventually('the response', async () => response !== undefined && partInStore() === '20');
    const held = managed.manager.informer(Part).store.get(partKey);
    expect(held?.metadata).toEqual(stored('p', '20', { labels: { x: '1' } }).metadata);
    expect((held as Response | undefined)?.status).toEqual({ phase: 'Running' });
    expect(() => held?.spec).toThrow(
      'Part default/p: .spec is nested more than 500 levels deep: simplify it, or delete the object',
    );
    expect(response?.metadata).toMatchObject({ managedFields });
  });
});

describe('a key without a predicate', () => {
  const status = (value: object): object => ({ ...stored('a', '20'), status: value });
  const mergeStatus = (client: Client): Promise<unknown> =>
    client.mergeStatus(Widget, { ...widgetKey, resourceVersion: '1' }, { phase: 'Done' });

  test('is not reconciled for its own status, and once for the status that another client writes', async () => {
    await controller(firstOnly(mergeStatus));
    (await next('PATCH')).json(200, status({ phase: 'Done' }));
    await eventually('the response', async () => widgetInStore()?.metadata.resourceVersion === '20');
    widgets.send('MODIFIED', status({ phase: 'Done' }));
    await othersGoOn('30');
    expect(times('a')).toBe(1);
    widgets.send('MODIFIED', { ...stored('a', '31'), status: { phase: 'Edited' } });
    await reconciled('a', 2);
    await othersGoOn('40');
    expect(times('a')).toBe(2);
  });

  test('is not reconciled for the event of its status that overtakes the response, but for another change meanwhile', async () => {
    await controller(firstOnly(mergeStatus));
    const write = await next('PATCH');
    widgets.send('MODIFIED', status({ phase: 'Done' }));
    await othersGoOn('30');
    write.json(200, status({ phase: 'Done' }));
    await othersGoOn('40');
    expect(times('a')).toBe(1);
    widgets.send('MODIFIED', { ...stored('a', '41'), status: { phase: 'Done' }, spec: { size: 1 } });
    await reconciled('a', 2);
  });

  test('is reconciled for the change of another client that comes while its request is in flight', async () => {
    await controller(firstOnly(mergeStatus));
    const write = await next('PATCH');
    widgets.send('MODIFIED', { ...stored('a', '15'), spec: { size: 1 } });
    await othersGoOn('16');
    write.json(200, { ...stored('a', '20'), status: { phase: 'Done' }, spec: { size: 1 } });
    await reconciled('a', 2);
  });

  test('is reconciled for the change of another client that the response to its status shows', async () => {
    await controller(firstOnly(mergeStatus), { widget: stored('a', '1', { generation: 1 }) });
    const response = { ...stored('a', '20', { generation: 2 }), status: { phase: 'Done' }, spec: { size: 7 } };
    (await next('PATCH')).json(200, response);
    await reconciled('a', 2);
  });

  test('is reconciled for the change of a spec that a transform drops, if the response to its status shows it', async () => {
    managed.manager.informer(Widget, {
      transform: ({ metadata, status: kept }) => ({ metadata, status: kept }) as Widget,
    });
    await controller(firstOnly(mergeStatus), { widget: stored('a', '1', { generation: 1 }) });
    (await next('PATCH')).json(200, { ...stored('a', '20', { generation: 2 }), status: { phase: 'Done' } });
    await reconciled('a', 2);
  });

  test('is reconciled for the removal of a condition of another client that the response to its apply shows', async () => {
    const withConditions = (version: string, ...conditions: readonly object[]): object => ({
      ...stored('a', version),
      status: { conditions },
    });
    const mine = (at: number): object => ({ type: 'Mine', at });
    const status = { conditions: [mine(2)] };
    await controller(
      firstOnly((client) => client.apply(Widget, { metadata: widgetKey, status } as never, { force: true })),
      { widget: withConditions('1', { type: 'Theirs' }, mine(1)) },
    );
    (await next('PATCH')).json(200, withConditions('20', mine(2)));
    await reconciled('a', 2);
  });

  test('is reconciled for another value than it has sent', async () => {
    await controller(firstOnly(mergeStatus));
    (await next('PATCH')).json(200, status({ phase: 'Rewritten' }));
    await reconciled('a', 2);
  });

  test('is reconciled for what a get shows', async () => {
    await controller(firstOnly((client) => client.get(Widget, widgetKey)));
    (await next('GET')).json(200, stored('a', '20', { labels: { of: 'another' } }));
    await reconciled('a', 2);
  });

  test('is reconciled if a list has hidden what happened to its object', async () => {
    await controller(firstOnly(createPart));
    const create = await next('POST');
    // Created and deleted between two lists.
    parts.send('ERROR', { kind: 'Status', code: 410, reason: 'Expired' });
    (await managed.server.next({ path: partsPath, watch: false })).list('30', []);
    await managed.server.next({ path: partsPath, watch: true });
    create.json(201, stored('p', '20'));
    await reconciled('a', 2);
    expect(partInStore()).toBeUndefined();
  });

  test('is not reconciled for the object that its Applier has created', async () => {
    const { store } = managed.manager.informer(Part);
    const manifest = { metadata: { ...partKey, ownerReferences: [controllerReference(Widget, stored('a', '1'))] } };
    const applier = new Applier({ fieldManager: 'tester' });
    await controller(firstOnly((client) => applier.apply(Part, manifest, { client, store })));
    (await next('PATCH')).json(201, stored('p', '20'));
    await othersGoOn('30');
    expect([times('a'), partInStore()]).toEqual([1, '20']);
  });

  test('is reconciled for an object that the response to another apply shows first: another client may have created it', async () => {
    await controller(firstOnly((client) => client.apply(Part, { metadata: partKey }, { force: true })));
    const { metadata } = stored('p', '20', { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['x/y'] });
    (await next('PATCH')).json(200, { metadata });
    await reconciled('a', 2);
  });

  test('is not reconciled for the finalizer that it adds, in whatever form it sends it', async () => {
    const body = [
      { op: 'add', path: '/metadata/resourceVersion', value: '1' },
      { op: 'add', path: '/metadata/finalizers', value: ['x/y'] },
    ] as const;
    await controller(firstOnly((client) => client.patch(Widget, widgetKey, { type: 'json', body })));
    (await next('PATCH')).json(200, stored('a', '20', { finalizers: ['x/y'] }));
    await eventually('the response', async () => widgetInStore()?.metadata.resourceVersion === '20');
    widgets.send('MODIFIED', stored('a', '20', { finalizers: ['x/y'] }));
    await othersGoOn('30');
    expect(times('a')).toBe(1);
  });

  test('is reconciled for the write of another key to its object', async () => {
    managed.manager.controller(Widget, {
      reconcile: async ({ name }, { client }) => {
        begun.push(name);
        if (name === 'b') await client.patch(Widget, widgetKey, { type: 'merge', body: { spec: { size: 2 } } });
        return done;
      },
    });
    managed.run();
    const synced = await managed.sync({ [widgetsPath]: { resourceVersion: '10', items: [stored('a', '1')] } });
    await reconciled('a', 1);
    synced[widgetsPath]?.send('ADDED', stored('b', '11'));
    (await next('PATCH')).json(200, { ...stored('a', '20'), spec: { size: 2 } });
    await reconciled('a', 2);
  });
});

describe('an error that shows a stale cache', () => {
  const readOf = (plural: string, name: string): Promise<Exchange> =>
    managed.server.next({ method: 'GET', path: path(plural, name) });
  const applyWithUid = (client: Client): Promise<unknown> =>
    client.apply(Part, { metadata: partKey }, { force: true, uid: 'uid-p' }).catch(() => {});

  test('a Conflict: the object is read before the reconcile goes on', async () => {
    await controller(
      firstOnly((client) => client.mergeStatus(Widget, { ...widgetKey, resourceVersion: '1' }, {}).catch(() => {})),
    );
    (await next('PATCH')).refuse(409, 'Conflict');
    (await readOf('widgets', 'a')).json(200, stored('a', '20'));
    await reconciled('a', 2);
    expect(widgetInStore()?.metadata.resourceVersion).toBe('20');
  });

  test('an update without a response: the object is read', async () => {
    await controller(
      firstOnly((client) => client.mergeStatus(Widget, { ...widgetKey, resourceVersion: '1' }, {}).catch(() => {})),
    );
    (await next('PATCH')).cut();
    (await readOf('widgets', 'a')).json(200, stored('a', '20'));
    await reconciled('a', 2);
    expect(widgetInStore()?.metadata.resourceVersion).toBe('20');
  });

  test('an AlreadyExists: the object that has the name is read', async () => {
    await controller(firstOnly((client) => createPart(client).catch(() => {})));
    (await next('POST')).refuse(409, 'AlreadyExists');
    (await readOf('parts', 'p')).json(200, stored('p', '20'));
    await reconciled('a', 2);
    expect(partInStore()).toBe('20');
  });

  test('an AlreadyExists of an object that is gone again: no event need follow, so the key is reconciled', async () => {
    await controller(firstOnly((client) => createPart(client).catch(() => {})));
    (await next('POST')).refuse(409, 'AlreadyExists');
    (await readOf('parts', 'p')).refuse(404, 'NotFound', { details: { name: 'p' } });
    await reconciled('a', 2);
  });

  test('a uid that another object has: that object is read', async () => {
    await controller(firstOnly(applyWithUid), { existing: [stored('p', '5')] });
    const causes = [{ reason: 'FieldValueInvalid', field: 'metadata.uid', message: 'field is immutable' }];
    (await next('PATCH')).refuse(422, 'Invalid', { details: { causes } });
    (await readOf('parts', 'p')).json(200, stored('p', '20', { uid: 'other' }));
    await reconciled('a', 2);
    expect(managed.manager.informer(Part).store.get(partKey)?.metadata.uid).toBe('other');
  });

  test('an object that is not found is gone', async () => {
    await controller(firstOnly(applyWithUid), { existing: [stored('p', '5')] });
    (await next('PATCH')).refuse(409, 'Conflict');
    (await readOf('parts', 'p')).refuse(404, 'NotFound', { details: { name: 'p' } });
    await reconciled('a', 2);
    expect(partInStore()).toBeUndefined();
  });

  test('a delete with a uid that another object has: the object with that uid is gone', async () => {
    await controller(
      firstOnly((client) => client.delete(Part, partKey, { uid: 'uid-p' }).catch(() => {})),
      {
        existing: [stored('p', '5')],
      },
    );
    const message = 'Precondition failed: UID in precondition: uid-p, UID in object meta: other';
    (await next('DELETE')).refuse(409, 'Conflict', { message });
    await reconciled('a', 2);
    expect(partInStore()).toBeUndefined();
  });

  test('a delete that conflicts with something else: the object stays', async () => {
    let isDone = false;
    await controller(
      firstOnly(async (client) => {
        await client.delete(Part, partKey, { uid: 'uid-p' }).catch(() => {});
        isDone = true;
      }),
      { existing: [stored('p', '5')] },
    );
    (await next('DELETE')).refuse(409, 'Conflict', { message: 'the content is being removed' });
    await eventually('the response', async () => isDone);
    expect(partInStore()).toBe('5');
  });

  test('an object of a kind that is not served, or another version of the object, is not gone', async () => {
    let isDone = false;
    await controller(
      firstOnly(async (client) => {
        await client.get(Part, partKey).catch(() => {});
        await client.delete(Part, partKey, { uid: 'uid-p', resourceVersion: '1' }).catch(() => {});
        isDone = true;
      }),
      { existing: [stored('p', '5')] },
    );
    (await next('GET')).refuse(404, 'NotFound');
    (await next('DELETE')).refuse(409, 'Conflict');
    await eventually('the responses', async () => isDone);
    expect(partInStore()).toBe('5');
  });
});

test('a key is not reconciled again while a request of its failed reconcile has no response', async () => {
  await controller((client, run) => {
    if (run > 1) return Promise.resolve();
    void createPart(client).catch(() => {});
    return Promise.reject(new Error('it does not wait'));
  });
  const create = await next('POST');
  widgets.send('MODIFIED', stored('a', '11'));
  await othersGoOn('12');
  expect(times('a')).toBe(1);
  create.json(201, stored('p', '20'));
  await reconciled('a', 2);
});

test('a key has one worker, also if a failed reconcile leaves a branch that sends one request after the other', async () => {
  let error: unknown;
  await controller(async (client, run) => {
    if (run > 1) return;
    const branch = async (): Promise<void> => {
      await client.get(Part, partKey);
      await client.get(Part, partKey);
    };
    const refused = branch().catch((thrown: unknown) => {
      error = thrown;
    });
    await Promise.race([refused, Promise.reject(new Error('it does not wait'))]);
  });
  const first = await next('GET');
  await othersGoOn('20');
  expect(times('a')).toBe(1);
  first.json(200, stored('p', '5'));
  await eventually('the second is refused', async () => error !== undefined);
  expect(error).toEqual(new Error('get of Part after the reconcile of default/a has ended: await each request'));
  await reconciled('a', 2);
});

describe('an event that overtakes the response to a request', () => {
  const theirs = { ...stored('p', '20'), spec: { size: 7 } };

  test('of a creation of another client, after which ours fails, enqueues the key', async () => {
    await controller(firstOnly((client) => createPart(client).catch(() => {})));
    const create = await next('POST');
    parts.send('ADDED', theirs);
    await eventually('the event', async () => partInStore() === '20');
    create.refuse(409, 'AlreadyExists');
    (await next('GET')).json(200, theirs);
    await reconciled('a', 2);
  });

  test('of a creation of another client, which comes while the failed reconcile reads that object, enqueues the key', async () => {
    await controller(firstOnly((client) => createPart(client).catch(() => {})));
    (await next('POST')).refuse(409, 'AlreadyExists');
    const read = await next('GET');
    parts.send('ADDED', theirs);
    await eventually('the event', async () => partInStore() === '20');
    read.json(200, theirs);
    await reconciled('a', 2);
  });

  test('of a creation whose response is lost, enqueues the key', async () => {
    await controller(firstOnly((client) => createPart(client).catch(() => {})));
    const create = await next('POST');
    parts.send('ADDED', stored('p', '20'));
    await eventually('the event', async () => partInStore() === '20');
    create.cut();
    await reconciled('a', 2);
  });

  test('of a creation of another client, after which our apply conflicts, enqueues the key', async () => {
    const mustNotExist = { force: true, resourceVersion: '1' };
    await controller(firstOnly((client) => client.apply(Part, { metadata: partKey }, mustNotExist).catch(() => {})));
    const apply = await next('PATCH');
    parts.send('ADDED', theirs);
    await eventually('the event', async () => partInStore() === '20');
    apply.refuse(409, 'Conflict');
    await reconciled('a', 2);
  });
});

test('a Namespace that is being deleted is not gone while its spec has finalizers', async () => {
  let namespaces: (() => string | undefined) | undefined;
  const name = 'n';
  const shown: (string | undefined)[] = [];
  const leaving = {
    ...stored(name, '20', { deletionTimestamp: '2026-01-01T00:00:00Z', namespace: undefined } as object),
  };
  managed.manager.controller(Namespace, {
    reconcile: async (_, { client }) => {
      if (shown.length > 0) return done;
      await client.delete(Namespace, { name }, { uid: `uid-${name}` });
      shown.push(namespaces?.());
      return done;
    },
  });
  const { store } = managed.manager.informer(Namespace);
  namespaces = () => store.get({ name })?.metadata.resourceVersion;
  managed.run();
  const { metadata } = stored(name, '5', { namespace: undefined } as object);
  await managed.sync({ '/api/v1/namespaces': { resourceVersion: '10', items: [{ metadata }] } });
  (await next('DELETE')).json(200, leaving);
  await eventually('the response', async () => shown.length === 1);
  expect(shown).toEqual(['20']);
});

describe('no reconcile follows another without end', () => {
  test('if an object is outside a selection that only the server knows', async () => {
    await controller((client) => client.get(Part, partKey), { partInformer: { fieldSelector: 'status.ok!=1' } });
    (await next('GET')).json(200, stored('p', '5'));
    await othersGoOn('20');
    expect(times('a')).toBe(1);
  });

  test('if an item of the status that it stamps has a member that is undefined', async () => {
    const [sent, stamped] = [{ type: 'Stamped', message: undefined }, { type: 'Stamped' }];
    const body = { status: { conditions: [sent] } };
    await controller((client) => client.patch(Widget, widgetKey, { type: 'merge', body }, { subresource: 'status' }));
    const written = { ...stored('a', '20'), status: { conditions: [stamped] } };
    (await next('PATCH')).json(200, written);
    widgets.send('MODIFIED', written);
    await othersGoOn('30');
    expect(times('a')).toBe(1);
  });

  test('if the server was restored and the watch does not know it yet', async () => {
    await controller((client) => client.mergeStatus(Widget, { ...widgetKey, resourceVersion: '1' }, { phase: 'Mine' }));
    (await next('PATCH')).json(200, { ...stored('a', '7'), status: { phase: 'Mine' } });
    await othersGoOn('20');
    expect(times('a')).toBe(1);
  });
});

test('an object stays that only the server knows to be in the selection', async () => {
  const seen: (string | undefined)[] = [];
  await controller(
    firstOnly(async (client) => {
      await client.patch(Part, partKey, { type: 'merge', body: { metadata: { labels: { x: '1' } } } });
      seen.push(partInStore());
    }),
    { existing: [stored('p', '5')], partInformer: { fieldSelector: 'spec.unschedulable=false' } },
  );
  (await next('PATCH')).json(200, stored('p', '20', { labels: { x: '1' } }));
  await eventually('the response', async () => seen.length === 1);
  expect(seen).toEqual(['20']);
});

test('the client of a reconcile refuses to delete a collection', async () => {
  let error: unknown;
  await controller(
    firstOnly(async (client) => {
      error = await client.deleteCollection(Part, { namespace: 'default' }).catch((thrown: unknown) => thrown);
    }),
  );
  await eventually('it is refused', async () => error !== undefined);
  expect(error).toEqual(
    new TypeError(
      'deleteCollection of Part in a reconcile: the cache could not show what it deletes. Delete each object of the store',
    ),
  );
});

test('a reconcile that creates objects while it iterates ends', async () => {
  let count = 0;
  await controller(
    firstOnly(async (client) => {
      for (const { metadata } of managed.manager.informer(Part).store.list()) {
        count += 1;
        await client.create(Part, { metadata: { ...keyOf({ metadata }), name: `${metadata.name}-copy` } });
      }
    }),
    { existing: [stored('x', '5')] },
  );
  (await next('POST')).json(201, stored('x-copy', '20'));
  await othersGoOn('30');
  expect([count, managed.manager.informer(Part).store.size]).toEqual([1, 2]);
});

describe('a watch that is silent while a response waits for its event', () => {
  const ofParts = { resource: 'parts.test.example' };

  test('is replaced by one that resumes, and then by one that lists, which is counted, and logged once', async () => {
    await controller(firstOnly(createPart), { partInformer: { silentWatchTimeoutMs: 200 } });
    (await next('POST')).json(201, stored('p', '20'));
    const resumed = await managed.server.next({ path: partsPath, watch: true });
    expect(resumed.query.get('resourceVersion')).toBe('10');
    resumed.stream();
    const list = await managed.server.next({ path: partsPath, watch: false });
    expect(await managed.metric('informer_watches_replaced_total', ofParts)).toBe(2);
    expect(managed.log.messages('warn')).toEqual(['the watch has not delivered our own write: replacing the watch']);
    list.list('30', []);
    await reconciled('a', 2);
    expect(partInStore()).toBeUndefined();
  });
});

test('two writers who correct each other pause, which is logged once', async () => {
  await controller((client) => {
    const { resourceVersion = '' } = widgetInStore()?.metadata ?? {};
    return client.mergeStatus(Widget, { ...widgetKey, resourceVersion }, { phase: 'Mine' });
  });
  const withPhase = (version: number, phase: string): object => ({
    ...stored('a', String(version)),
    status: { phase },
  });
  // Three corrections are prompt, the next one is not.
  for (let round = 0; round < 4; round += 1) {
    (await next('PATCH')).json(200, withPhase(20 + 2 * round, 'Mine'));
    await eventually('it is written', async () => widgetInStore()?.metadata.resourceVersion === String(20 + 2 * round));
    widgets.send('MODIFIED', withPhase(21 + 2 * round, 'Theirs'));
  }
  await othersGoOn('30');
  expect(times('a')).toBe(4);
  expect(managed.log.messages('warn')).toEqual([
    'another client overwrites what this controller writes, again and again: correcting it after pauses',
  ]);
  // A change of anything else does not wait.
  widgets.send('MODIFIED', { ...withPhase(31, 'Theirs'), spec: { size: 1 } });
  await reconciled('a', 5);
  (await next('PATCH')).refuse(403, 'Forbidden');
});
