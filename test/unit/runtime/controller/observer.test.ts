import { Applier, controllerReference, done, owns, type Reconcile, requeueAfter } from '@echoperator/runtime';
import { type ExplainedReconcile, FlightRecorder } from '@echoperator/runtime/process';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { eventually } from '../../../../testkit/eventually.ts';
import { Part, partsPath, stored, Widget, widgetsPath } from '../../../../testkit/widgets.ts';
import { Managed } from '../../environment/managed.ts';

let managed: Managed;
let recorder: FlightRecorder;
beforeEach(async () => {
  recorder = new FlightRecorder();
  managed = await Managed.start({ observer: recorder });
});
afterEach(() => managed.close());

const explained = () => recorder.explain({ kind: 'widget', namespace: 'default', name: 'a' });
const reconciles = (): readonly ExplainedReconcile[] => explained()?.reconciles ?? [];
/** The keys that are reconciled now. */
const unfinished = () => recorder.explainActivity({ withinSeconds: 1 }).unfinished.map(({ key }) => key);
const ended = (count: number): Promise<unknown> =>
  eventually(`${count} reconciles are recorded`, async () => (explained()?.total ?? 0) >= count);

const listed = (name = 'a') => ({ resourceVersion: '10', items: [stored(name, '1')] });
const withSpec = (resourceVersion: string, size: number) => ({ ...stored('a', resourceVersion), spec: { size } });

test('a reconcile is recorded with the event that caused it', async () => {
  managed.manager.controller(Widget, { reconcile: async () => done });
  managed.run();
  const { [widgetsPath]: stream } = await managed.sync({ [widgetsPath]: listed() });
  await ended(1);
  const { metadata, ...rest } = withSpec('11', 1);
  const fieldsV1 = { 'f:spec': { 'f:size': {} } };
  const managedFields = [
    { manager: 'tester', time: '2026-01-01T00:00:00Z', fieldsV1 },
    { manager: 'kubectl-edit', time: '2026-01-01T00:00:01Z', fieldsV1 },
    { manager: 'kubelet', time: '2026-01-01T00:00:02Z', subresource: 'status', fieldsV1: { 'f:status': {} } },
  ];
  stream.send('MODIFIED', { ...rest, metadata: { ...metadata, managedFields } });
  await ended(2);
  stream.send('DELETED', withSpec('12', 1));
  await ended(3);
  expect(reconciles().map(({ why }) => why)).toEqual([
    'Widget added, found by a list',
    'Widget modified (spec.size) by kubectl-edit',
    'Widget deleted',
  ]);
  expect(explained()?.now).toContain('not in the cache');
});

test.each([
  [
    'no field manager, if the API server itself changed it',
    { deletionTimestamp: '2026-01-01T00:00:09Z', finalizers: ['mmontes.io/a', 'foregroundDeletion'] },
    undefined,
  ],
  ['no field manager, if the changed field was removed', { annotations: {} }, undefined],
  ['each that wrote one of its fields in the last second', { labels: { size: '2' } }, 'edit or scale'],
  ['the one that wrote a part of an atomic map', { annotations: { 'example.com/note': '2' } }, 'annotate'],
  ['the one that wrote a list', { finalizers: ['mmontes.io/a'] }, 'finalize'],
])('a change is told with %s', async (_, change, by) => {
  managed.manager.controller(Widget, { reconcile: async () => done });
  managed.run();
  const annotations = { 'example.com/note': '1' };
  const before = { ...stored('a', '1', { annotations }) };
  const { [widgetsPath]: stream } = await managed.sync({
    [widgetsPath]: { resourceVersion: '10', items: [before] },
  });
  await ended(1);
  const isAtomic = by === 'annotate';
  const entry = (manager: string, second: number, metadata: object) => ({
    manager,
    time: `2026-01-01T00:00:0${second}Z`,
    fieldsV1: { 'f:metadata': metadata },
  });
  const managedFields = [
    entry('create', 1, { 'f:labels': { '.': {}, 'f:size': {} } }),
    entry('edit', 2, { 'f:labels': { 'f:size': {} } }),
    entry('scale', 2, { 'f:labels': { 'f:size': {} } }),
    entry('finalize', 3, { 'f:finalizers': { 'v:"mmontes.io/a"': {} } }),
    entry('annotate', 4, { 'f:annotations': isAtomic ? {} : { '.': {} } }),
    entry('last', 5, { 'f:annotations': { '.': {}, 'f:example.com/other': {} } }),
  ];
  stream.send('MODIFIED', {
    ...before,
    metadata: { ...before.metadata, resourceVersion: '11', ...change, managedFields },
  });
  await ended(2);
  expect(reconciles().at(-1)?.why).toMatch(by === undefined ? /\)$/ : new RegExp(` by ${by}$`));
});

test('the event of a child, a requeue, a retry and a source are told apart', async () => {
  const results = [done, requeueAfter(1), done, done, undefined, done];
  let enqueue = (): void => {};
  const reconcile: Reconcile = async () => {
    const result = results.shift();
    if (result === undefined) throw new Error('no');
    return result;
  };
  managed.manager.controller(Widget, {
    watches: [owns(Widget, Part)],
    sources: [
      (add) => {
        enqueue = () => add({ namespace: 'default', name: 'a' });
      },
    ],
    retries: { initialBackoffMs: 1 },
    reconcile,
  });
  managed.run();
  const streams = await managed.sync({ [widgetsPath]: listed(), [partsPath]: { resourceVersion: '10' } });
  await ended(1);
  const ownerReferences = [controllerReference(Widget, stored('a', '1'))];
  streams[partsPath].send('ADDED', stored('part', '11', { ownerReferences }));
  await ended(3);
  expect(
    reconciles()
      .map(({ why }) => why)
      .slice(1),
  ).toEqual(['Part added', 'the requeue that it had asked for']);
  enqueue();
  await ended(4);
  expect(reconciles().at(-1)?.why).toBe('a source of keys');
  enqueue();
  await ended(6);
  expect(reconciles().map(({ why }) => why)).toContain('retry 1');
});

test('requests and skipped applies are recorded', async () => {
  const parts = managed.manager.informer(Part).store;
  const applier = new Applier({ fieldManager: 'tester' });
  managed.manager.controller(Widget, {
    watches: [owns(Widget, Part)],
    reconcile: async (key, { client }) => {
      const metadata = { ...key, ownerReferences: [controllerReference(Widget, stored('a', '1'))] };
      await applier.apply(Part, { metadata, spec: { size: 3 } }, { client, store: parts });
      return done;
    },
  });
  managed.run();
  const streams = await managed.sync({ [widgetsPath]: listed(), [partsPath]: { resourceVersion: '10' } });
  const apply = await managed.server.next({ method: 'PATCH' });
  const applied = { ...(apply.body as object), metadata: { ...(apply.body as { metadata: object }).metadata } };
  const part = { ...applied, metadata: { ...applied.metadata, uid: 'uid-part', resourceVersion: '20' } };
  // As the API server says of an object that an apply has created.
  const managedFields = [{ manager: 'tester', operation: 'Apply' }];
  apply.json(201, { ...part, metadata: { ...part.metadata, managedFields } });
  await ended(1);
  expect(reconciles()[0]?.steps).toMatchObject([{ verb: 'apply', kind: 'Part', name: 'a', response: 'ok' }]);
  // The cache shows the response already.
  streams[widgetsPath].send('MODIFIED', withSpec('11', 2));
  await ended(2);
  const second = reconciles().at(-1);
  expect(second?.why).toBe('Widget modified (spec.size)');
  expect(second?.steps).toEqual([{ verb: 'unchanged', kind: 'Part', name: 'a' }]);
});

test('a change of another client that a response has shown is told as such', async () => {
  managed.manager.controller(Widget, {
    reconcile: async (key, { client }) => {
      if (explained()?.total === 0) await client.get(Widget, key);
      return done;
    },
  });
  managed.run();
  await managed.sync({ [widgetsPath]: listed() });
  (
    await managed.server.next({
      method: 'GET',
      path: `${widgetsPath.replace('/widgets', '')}/namespaces/default/widgets/a`,
    })
  ).json(200, withSpec('11', 2));
  await ended(2);
  expect(reconciles().at(-1)?.why).toBe('Widget modified (spec.size), shown by a response');
});

test('a key whose reconcile has failed while a request of it has no response is not finished', async () => {
  managed.manager.controller(Widget, {
    reconcile: async (key, { client }) => {
      void client.get(Part, key).catch(() => {});
      throw new Error('it does not wait');
    },
  });
  managed.run();
  await managed.sync({ [widgetsPath]: listed() });
  const request = await managed.server.next({ method: 'GET' });
  await ended(1);
  expect(explained()?.now).toMatch(/^its reconcile has ended, or its record was dropped: a request has no response/);
  expect(unfinished()).toEqual(['default/a']);
  request.json(200, stored('a', '5'));
  await ended(2);
});

test('a refusal is recorded with its code, its quota and the retry', async () => {
  managed.manager.controller(Widget, {
    retries: { initialBackoffMs: 60_000 },
    reconcile: async (key, { client }) => {
      await client.create(Part, { metadata: { ...key } });
      return done;
    },
  });
  managed.run();
  await managed.sync({ [widgetsPath]: listed() });
  const message = 'parts "a" is forbidden: exceeded quota: few, requested: count/parts=1, used: 3, limited: 3';
  (await managed.server.next({ method: 'POST' })).refuse(403, 'Forbidden', { message });
  await ended(1);
  expect(reconciles()).toMatchObject([
    { steps: [{ response: '403' }], outcome: 'error', error: '403 Forbidden; quota few is exceeded for count/parts' },
  ]);
  expect(explained()?.now).toMatch(/^waits for retry 1, in [56]\d\.\d s$/);
});

test('a change that the predicate drops is recorded with the fields that changed, but not one of the status', async () => {
  managed.manager.controller(Widget, {
    predicate: (delta) => delta.type !== 'modified',
    reconcile: async () => done,
  });
  managed.run();
  const { [widgetsPath]: stream } = await managed.sync({ [widgetsPath]: listed() });
  await ended(1);
  stream.send('MODIFIED', stored('a', '11', { annotations: { note: 'x' } }));
  await eventually('the change is recorded', async () => explained()?.ignored !== undefined);
  stream.send('MODIFIED', { ...stored('a', '12', { annotations: { note: 'x' } }), status: { size: 1 } });
  stream.send('ADDED', stored('b', '13'));
  const ofB = () => recorder.explain({ kind: 'widget', namespace: 'default', name: 'b' });
  await eventually('the later event is handled', async () => ofB()?.total === 1);
  expect(explained()?.ignored?.change).toBe(
    'Widget modified (metadata.annotations.note); the predicate of the controller drops such changes',
  );
});

test('a takeover with filled caches is told apart from a start', async () => {
  const leading = Promise.withResolvers<void>();
  managed.manager.controller(Widget, { reconcile: async () => done });
  managed.run({ leading: leading.promise });
  await managed.sync({ [widgetsPath]: listed() });
  await managed.manager.synced;
  leading.resolve();
  await ended(1);
  expect(reconciles().map(({ why }) => why)).toEqual(['this replica began to lead']);
});

test('a reconcile that waits for an answer is shown with the request', async () => {
  managed.manager.controller(Widget, {
    reconcile: async (key, { client }) => {
      await client.get(Part, key);
      return done;
    },
  });
  managed.run();
  await managed.sync({ [widgetsPath]: listed() });
  const request = await managed.server.next({
    method: 'GET',
    path: `${partsPath.replace('/parts', '')}/namespaces/default/parts/a`,
  });
  expect(explained()?.now).toMatch(/^a reconcile runs for .*: get Part a without a response for/);
  expect(unfinished()).toEqual(['default/a']);
  request.json(200, stored('a', '5'));
  await ended(1);
  expect(unfinished()).toEqual([]);
});
