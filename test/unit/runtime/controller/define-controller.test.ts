import { type Condition, cleanedUp, controllerReference, keyOf, metadataOnly, selected } from '@echoperator/runtime';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { child } from '../../../../packages/runtime/src/controller/context.ts';
import { defineController } from '../../../../packages/runtime/src/controller/define-controller.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { Part, Planet, partsPath, stored } from '../../../../testkit/widgets.ts';
import { DefinedWorld } from '../../environment/defined-world.ts';
import { Gadget, gadget, gadgetPath, gadgetsPath } from '../../environment/gadgets.ts';

let world: DefinedWorld;
beforeEach(async () => {
  world = await DefinedWorld.start();
});
afterEach(() => world.close());

const reasons = { Made: { ready: 'True', event: 'Normal', meaning: 'All is there.' } } as const;
const made = { reason: 'Made', message: 'made' } as const;
const partPath = (name: string): string => `/apis/test.example/v1/namespaces/default/parts/${name}`;
const gadgets = (...items: readonly object[]) => ({ resourceVersion: '10', items });

/** A Part that the Gadget `a` controls. */
const part = (name: string, resourceVersion = '6', owner = gadget()) => ({
  ...stored(name, resourceVersion, { ownerReferences: [controllerReference(Gadget, owner)] }),
  spec: { size: 1 },
});

/** Keeps one Part of the size of the spec. */
const onePart = defineController(Gadget, {
  owns: [Part],
  reasons,
  observe: ({ spec }, { owned }) => ({
    status: { phase: 'Waiting', parts: owned(Part).length + 0 * (spec?.size ?? 0) },
  }),
  reconcile: async ({ spec }, { apply }) => {
    const { metadata } = await apply(Part, { spec: { size: spec.size } });
    return { ...made, message: metadata.name, status: { phase: 'Done' } };
  },
});

const apply = () => world.server.next({ method: 'PATCH', path: partPath('a') });
const asked = () => world.server.next({ method: 'GET', path: gadgetPath });
/** The object is asked for, and is as the cache shows it: an earlier reconcile may have created the child. */
const isCurrent = async () => (await asked()).json(200, gadget());
const reported = (object = gadget(), resourceVersion?: string) => world.reported(gadgetPath, object, resourceVersion);
const reconciles = (result = 'success') =>
  world.managed.metric('controller_runtime_reconcile_total', { controller: 'gadget', result });
const idle = (count: number, result?: string) =>
  eventually(`${count} reconciles`, async () => (await reconciles(result)) >= count);

/** The error of the first failed reconcile. */
const failure = () => world.managed.log.lines.find(({ level }) => level === 'error')?.details.err as Error | undefined;

describe('apply', () => {
  test('names a child after its owner, and reports what the reconcile returns', async () => {
    await world.run(onePart, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets() });
    const request = await apply();
    expect(request.body).toMatchObject({
      metadata: { name: 'a', namespace: 'default', ownerReferences: [{ uid: 'uid-a', controller: true }] },
      spec: { size: 1 },
    });
    request.json(201, part('a'));
    expect(await reported()).toMatchObject({ reason: 'Made', message: 'a', status: { phase: 'Done' } });
    await idle(1);
    expect(world.events.all).toEqual(['Normal PartCreated', 'Normal Made']);
  });

  test('ends the reconcile if the name is taken, and the key runs again when it is free', async () => {
    const foreign = stored('a', '6');
    const streams = await world.run(onePart, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets(foreign) });
    const report = await reported();
    expect(report).toMatchObject({
      reason: 'NameTaken',
      message: 'a Part named a exists and does not belong to this Gadget: delete it, or give the Gadget another name',
      // What the definition observes.
      status: { phase: 'Waiting', parts: 0 },
    });
    await idle(1);
    streams[partsPath]?.send('DELETED', { ...foreign, metadata: { ...foreign.metadata, resourceVersion: '60' } });
    await isCurrent();
    (await apply()).json(201, part('a', '61'));
    expect((await reported()).reason).toBe('Made');
  });

  test('reports a child that is being deleted, or belongs to an earlier object of the name', async () => {
    const leaving = part('a');
    const metadata = { ...leaving.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' };
    const streams = await world.run(onePart, {
      [gadgetsPath]: gadgets(gadget()),
      [partsPath]: gadgets({ ...leaving, metadata }),
    });
    expect(await reported()).toMatchObject({ reason: 'Replacing', message: expect.stringContaining('being deleted') });
    const earlier = part('a', '70', gadget({ metadata: { uid: 'uid-before' } }));
    streams[partsPath]?.send('DELETED', { ...leaving, metadata: { ...metadata, resourceVersion: '69' } });
    streams[partsPath]?.send('ADDED', { ...earlier, metadata: { ...earlier.metadata, uid: 'uid-earlier' } });
    expect(await reported()).toMatchObject({ reason: 'Replacing', message: expect.stringContaining('earlier Gadget') });
  });

  test('reports and retries a refusal', async () => {
    await world.run(onePart, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets() });
    (await apply()).refuse(403, 'Forbidden', { message: 'exceeded quota' });
    expect(await reported()).toMatchObject({
      reason: 'Refused',
      message: `the API server refuses PATCH ${partPath('a')}: exceeded quota; the operator retries at least once a minute`,
      status: { phase: 'Waiting' },
    });
    await isCurrent();
    (await apply()).json(201, part('a'));
    expect((await reported()).reason).toBe('Made');
  });
});

describe('the message of a condition', () => {
  test('that somebody else edits is corrected', async () => {
    const streams = await world.run(onePart, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets() });
    (await apply()).json(201, part('a', '20'));
    const { status } = await reported();
    await idle(1);
    const conditions = (status.conditions as readonly Condition[]).map((each) => ({ ...each, message: 'edited' }));
    streams[gadgetsPath]?.send(
      'MODIFIED',
      gadget({ metadata: { resourceVersion: '60' }, status: { ...status, conditions } }),
    );
    expect((await reported(gadget(), '70')).message).toBe('a');
  });

  test('that the key itself has written does not shorten its backoff', async () => {
    const streams = await world.run(
      onePart,
      { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets() },
      { retries: { initialBackoffMs: 60_000 } },
    );
    (await apply()).refuse(403, 'Forbidden', { message: 'denied at 12:00:01' });
    await reported();
    await idle(1, 'error');
    streams[gadgetsPath]?.send('ADDED', gadget({ metadata: { name: 'b', uid: 'uid-b', resourceVersion: '60' } }));
    (await world.server.next({ method: 'PATCH', path: partPath('b') })).json(201, part('b', '61'));
    expect(world.server.unclaimed).toBe(0);
    expect(await reconciles('error')).toBe(1);
  });
});

describe('a child that exists no more', () => {
  test('is not created for an object that is gone', async () => {
    const streams = await world.run(onePart, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets(part('a')) });
    (await apply()).json(200, part('a', '20'));
    await reported();
    streams[partsPath]?.send('DELETED', part('a', '21'));
    (await asked()).refuse(404, 'NotFound', { details: { name: 'a' } });
    await idle(2);
    expect(world.server.unclaimed).toBe(0);
  });

  test('is created again for an object that is current', async () => {
    const streams = await world.run(onePart, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets(part('a')) });
    (await apply()).json(200, part('a', '20'));
    const { status } = await reported();
    streams[partsPath]?.send('DELETED', part('a', '21'));
    (await asked()).json(200, gadget({ metadata: { resourceVersion: '50' }, status }));
    (await apply()).json(201, part('a', '60'));
    await eventually('an Event tells', async () => world.events.all.includes('Normal PartRecreated'));
  });

  const saying = (reason: string, status: 'True' | 'False') => ({
    conditions: [{ type: 'Ready', status, reason, message: 'a', lastTransitionTime: '' }],
  });
  test.each([
    ['that all is there', saying('Made', 'True')],
    // Perhaps of another child.
    ['a refusal', saying('Refused', 'False')],
    ['a reason of an earlier version', saying('MadeLongAgo', 'False')],
    // The process may have ended before its report.
    ['what a reconcile has written for itself', { phase: 'Waiting' as const }],
  ])(
    'is not created for an object that is gone, if a former process has written a status that says %s',
    async (_, status) => {
      await world.run(onePart, {
        [gadgetsPath]: gadgets(gadget({ status })),
        [partsPath]: gadgets(),
      });
      (await asked()).json(200, gadget({ metadata: { uid: 'uid-new', resourceVersion: '40' } }));
      // The response shows the new object, whose status knows of no child.
      (await apply()).json(201, part('a', '60', gadget({ metadata: { uid: 'uid-new' } })));
    },
  );

  test('is not created if it and the object are deleted during the reconcile', async () => {
    const gate = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const controller = defineController(Gadget, {
      owns: [Part],
      reasons,
      memory: () => ({ runs: 0 }),
      reconcile: async (_, { apply: applyPart, memory }) => {
        memory.runs += 1;
        if (memory.runs === 2) {
          begun.resolve();
          await gate.promise;
        }
        await applyPart(Part, { spec: { size: 1 } });
        return made;
      },
    });
    const streams = await world.run(controller, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets(part('a')) });
    (await apply()).json(200, part('a', '20'));
    await reported();
    streams[gadgetsPath]?.send('MODIFIED', gadget({ metadata: { resourceVersion: '55', labels: { x: 'y' } } }));
    await begun.promise;
    streams[partsPath]?.send('DELETED', part('a', '56'));
    const informer = world.managed.manager.informer(Part);
    await eventually('the deletion is known', async () => informer.hasReached('56'));
    gate.resolve();
    (await asked()).refuse(404, 'NotFound', { details: { name: 'a' } });
    await idle(2);
    expect(world.server.unclaimed).toBe(0);
  });
});

describe('the error that ends a reconcile', () => {
  test('must not be caught: the reconcile fails by name', async () => {
    const controller = defineController(Gadget, {
      owns: [Part],
      reasons,
      failed: () => made,
      reconcile: async (_, { apply: applyPart }) => {
        await applyPart(Part, {}).catch(() => {});
        return made;
      },
    });
    await world.run(controller, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets(stored('a', '6')) });
    await idle(1, 'error');
    expect(failure()).toMatchObject({
      name: 'EndIgnoredError',
      message: expect.stringContaining('NameTaken'),
    });
  });

  test('waits for the calls that were made beside it', async () => {
    const ends: string[] = [];
    const controller = defineController(Gadget, {
      owns: [Part],
      reasons,
      reconcile: async (_, { apply: applyPart }) => {
        const second = async () => {
          await applyPart(Part, { metadata: { name: 'b' } });
          await applyPart(Part, { metadata: { name: 'c' } });
          ends.push('second');
        };
        await Promise.all([applyPart(Part, {}), second()]);
        return made;
      },
    });
    await world.run(controller, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets(stored('a', '6')) });
    (await world.server.next({ path: partPath('b') })).json(201, part('b'));
    (await world.server.next({ path: partPath('c') })).json(201, part('c'));
    expect((await reported()).reason).toBe('NameTaken');
    expect(ends).toEqual(['second']);
  });
});

describe('a call that nobody awaits', () => {
  const forgetful = defineController(Gadget, {
    owns: [Part],
    reasons,
    reconcile: async (_, { apply: applyPart }) => {
      void applyPart(Part, {});
      return made;
    },
  });

  test('fails the reconcile with its error', async () => {
    await world.run(forgetful, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets() });
    (await apply()).refuse(403, 'Forbidden');
    expect((await reported()).reason).toBe('Refused');
  });

  test('does not end the reconcile: it fails by name', async () => {
    await world.run(forgetful, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets(stored('a', '6')) });
    await idle(1, 'error');
    expect(failure()?.name).toBe('EndIgnoredError');
  });
});

test('tryApply returns what keeps the child from being as desired', async () => {
  const controller = defineController(Gadget, {
    owns: [Part],
    reasons,
    reconcile: async (_, { tryApply }) => ({ ...made, message: (await tryApply(Part, {})).type }),
  });
  await world.run(controller, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets(stored('a', '6')) });
  expect((await reported()).message).toBe('nameTaken');
});

describe('applyAll', () => {
  const several = defineController(Gadget, {
    owns: [{ kind: Part, deletes: true }],
    reasons,
    reconcile: async (_, { applyAll }) => {
      const parts = ['b', 'c', 'd'].map((name) => child(Part, { metadata: { name } }));
      await applyAll(parts, { prune: true });
      return made;
    },
  });
  const next = (method: string, name: string) => world.server.next({ method, path: partPath(name) });

  test('attempts each, ends with the first problem, and prunes nothing then', async () => {
    await world.run(several, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets(stored('b', '6'), part('old')) });
    (await next('PATCH', 'c')).refuse(403, 'Forbidden');
    (await next('PATCH', 'd')).json(201, part('d'));
    expect((await reported()).reason).toBe('NameTaken');
    // Because of the refusal, also of the second child.
    await idle(1, 'error');
  });

  test('prunes by uid what is not in the list, if the object is current', async () => {
    await world.run(several, {
      [gadgetsPath]: gadgets(gadget()),
      [partsPath]: gadgets(part('old'), stored('foreign', '7'), part('b')),
    });
    for (const name of ['b', 'c', 'd']) (await next('PATCH', name)).json(200, part(name, '20'));
    (await asked()).json(200, gadget());
    const request = await next('DELETE', 'old');
    expect(request.body).toMatchObject({ preconditions: { uid: 'uid-old' } });
    request.json(200, { kind: 'Status', apiVersion: 'v1', status: 'Success' });
    expect((await reported()).reason).toBe('Made');
    expect(world.server.unclaimed).toBe(0);
  });

  test('prunes nothing for an object that has another spec by now', async () => {
    await world.run(several, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets(part('old')) });
    for (const name of ['b', 'c', 'd']) (await next('PATCH', name)).json(200, part(name, '20'));
    const current = gadget({ metadata: { generation: 2, resourceVersion: '30' } });
    (await asked()).json(200, current);
    await idle(1);
    // The response has enqueued the key, which now has that spec.
    (await asked()).json(200, current);
    await next('DELETE', 'old');
  });

  test('needs a kind that the controller deletes', async () => {
    const controller = defineController(Gadget, {
      owns: [Part],
      reasons,
      reconcile: async (_, { applyAll }) => {
        await applyAll([], { prune: true });
      },
    });
    await world.run(controller, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets() });
    await idle(1, 'error');
    expect(failure()?.message).toContain('deletes: true');
  });
});

test('a spec that lacks a required field is reported, and not reconciled', async () => {
  await world.run(onePart, { [gadgetsPath]: gadgets(gadget({ spec: {} })), [partsPath]: gadgets() });
  expect(await reported(gadget({ spec: {} }))).toMatchObject({
    reason: 'InvalidSpec',
    message: 'spec.size is missing',
    status: { phase: 'Waiting' },
  });
  expect(world.server.unclaimed).toBe(0);
});

test('an object that is being deleted is left to the garbage collector', async () => {
  const leaving = gadget({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['other/one'] } });
  await world.run(onePart, { [gadgetsPath]: gadgets(leaving), [partsPath]: gadgets() });
  await idle(1);
  expect(world.server.unclaimed).toBe(0);
});

test('failed names the outcome of an error or a refusal', async () => {
  const controller = defineController(Gadget, {
    owns: [Part],
    reasons: { ...reasons, Down: { ready: 'False', event: 'Warning', meaning: 'It is down.' } },
    failed: (error) => ({ reason: 'Down', message: error instanceof Error ? error.name : '', requeueAfterMs: 10 }),
    memory: () => ({ runs: 0 }),
    reconcile: async (_, { apply: applyPart, memory }) => {
      memory.runs += 1;
      if (memory.runs === 1) throw new RangeError('no');
      await applyPart(Part, {});
    },
  });
  await world.run(controller, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets() });
  expect(await reported()).toMatchObject({ reason: 'Down', message: 'RangeError' });
  (await asked()).json(200, gadget({ metadata: { resourceVersion: '50' } }));
  (await apply()).refuse(403, 'Forbidden');
  expect(await reported()).toMatchObject({ message: 'ApiError' });
  expect(await reconciles('requeue_after')).toBe(1);
  await idle(1, 'error');
});

describe('what the spec names', () => {
  const using = gadget({ spec: { size: 1, uses: 'thing' } });
  const seen: (string | undefined)[] = [];
  beforeEach(() => void seen.splice(0));

  test('enqueues the object when it changes', async () => {
    const controller = defineController(Gadget, {
      reasons,
      refersTo: [{ kind: Part, keys: ({ spec }) => (spec.uses === undefined ? [] : [spec.uses]) }],
      reconcile: async ({ spec }, { get }) => {
        seen.push(get(Part, spec.uses ?? '')?.metadata.resourceVersion);
      },
    });
    const streams = await world.run(controller, { [gadgetsPath]: gadgets(using), [partsPath]: gadgets() });
    await idle(1);
    streams[partsPath]?.send('ADDED', stored('other', '20'));
    streams[partsPath]?.send('ADDED', stored('thing', '21'));
    await idle(2);
    expect(seen).toEqual([undefined, '21']);
  });

  test('may be cluster-scoped', async () => {
    const planets = '/apis/test.example/v1/planets';
    const controller = defineController(Gadget, {
      reasons,
      refersTo: [{ kind: Planet, keys: ({ spec }) => (spec.uses === undefined ? [] : [spec.uses]) }],
      reconcile: async ({ spec }, { get }) => {
        seen.push(get(Planet, spec.uses ?? '')?.metadata.resourceVersion);
      },
    });
    const streams = await world.run(
      controller,
      { '/apis/test.example/v1/namespaces/default/gadgets': gadgets(using), [planets]: gadgets() },
      { namespaces: ['default'] },
    );
    await idle(1);
    const { namespace: _, ...metadata } = stored('thing', '21').metadata;
    streams[planets]?.send('ADDED', { metadata });
    await idle(2);
    expect(seen).toEqual([undefined, '21']);
  });
});

describe('a definition with views of a kind', () => {
  const SmallParts = selected(Part, { labelSelector: 'size=small' });
  const PartMetadata = metadataOnly(Part);
  const counting = defineController(Gadget, {
    owns: [Part, { kind: SmallParts, write: 'none' }],
    watches: [{ kind: PartMetadata, keys: () => [] }],
    reasons,
    reconcile: async (_, { owned }) => {
      const [all, small, metadata] = [owned(Part), owned(SmallParts), owned(PartMetadata)];
      // @ts-expect-error Only the metadata is there.
      metadata[0]?.spec;
      return { ...made, message: `${all.length} ${small.length} ${metadata.map((each) => Object.keys(each))}` };
    },
  });

  test('reads a cache of its own for each', async () => {
    const running = world.run(counting, {});
    const served = (items: readonly object[]) => ({ resourceVersion: '10', items });
    for (let n = 0; n < 4; n += 1) {
      const list = await world.server.next({ watch: false, method: 'GET' });
      const isOwn = list.path === gadgetsPath;
      list.list('10', isOwn ? [gadget()] : list.query.has('labelSelector') ? [] : served([part('a')]).items);
    }
    await running;
    expect((await reported()).message).toBe('1 0 apiVersion,kind,metadata');
  });

  test('needs the permissions of the kind', () => {
    expect(counting.permissions.filter(({ resources }) => resources.includes('parts'))).toEqual([
      { apiGroups: ['test.example'], resources: ['parts'], verbs: ['get', 'list', 'watch', 'create', 'patch'] },
    ]);
  });
});

test('an index finds objects, and a watch maps them to keys', async () => {
  const found: string[] = [];
  const controller = defineController(Gadget, {
    owns: [Part],
    reasons,
    indexes: { bySize: { kind: Part, values: ({ spec }) => [String(spec?.size)] } },
    watches: [
      {
        kind: Planet,
        keys: (_, { find, ownersAskingFor }) =>
          find('bySize', '1').flatMap((each) => ownersAskingFor(Part, keyOf(each))),
      },
    ],
    reconcile: async (_, { find, tryApply }) => {
      await tryApply(Part, { metadata: { name: 'p' } });
      found.push(
        find('bySize', '1')
          .map(({ metadata }) => metadata.name)
          .join(),
      );
    },
  });
  const planets = '/apis/test.example/v1/planets';
  const foreign = { ...stored('p', '6'), spec: { size: 1 } };
  const streams = await world.run(controller, {
    [gadgetsPath]: gadgets(gadget()),
    [partsPath]: gadgets(foreign),
    [planets]: gadgets(),
  });
  await idle(1);
  const { namespace: _, ...metadata } = stored('earth', '21').metadata;
  streams[planets]?.send('ADDED', { metadata });
  await idle(2);
  expect(found).toEqual(['p', 'p']);
});

describe('a finalizer', () => {
  const name = 'test.example/parts';
  const runs: string[] = [];
  beforeEach(() => void runs.splice(0));
  const guarded = defineController(Gadget, {
    reasons: { ...reasons, Removing: { ready: 'False', event: 'Normal', meaning: 'It is being removed.' } },
    reconcile: async ({ metadata }) => {
      runs.push(`reconcile ${metadata.finalizers}`);
      return made;
    },
    finalizer: {
      name,
      isNeeded: ({ spec }) => spec.size > 0,
      cleanUp: async () => {
        runs.push('cleanUp');
        return runs.length === 1 ? { reason: 'Removing', message: 'wait', requeueAfterMs: 1 } : cleanedUp;
      },
    },
  });
  const patch = () => world.server.next({ method: 'PATCH', path: gadgetPath });
  const finalizers = [name, 'other/one'];

  test('is added before the reconcile, whose status follows from the object with it', async () => {
    await world.run(guarded, { [gadgetsPath]: gadgets(gadget()) });
    (await patch()).json(200, gadget({ metadata: { finalizers: [name], resourceVersion: '20' } }));
    const request = await world.server.next({ method: 'PATCH', path: `${gadgetPath}/status` });
    expect(request.body).toMatchObject({ metadata: { resourceVersion: '20' } });
    expect(runs).toEqual([`reconcile ${name}`]);
  });

  test('is removed by cleanedUp only, and progress is reported', async () => {
    const leaving = gadget({ metadata: { finalizers, deletionTimestamp: '2026-01-01T00:00:00Z' } });
    await world.run(guarded, { [gadgetsPath]: gadgets(leaving) });
    expect(await reported(leaving)).toMatchObject({ reason: 'Removing', message: 'wait' });
    const request = await patch();
    expect(request.body).toContainEqual({ op: 'add', path: '/metadata/finalizers', value: ['other/one'] });
    expect(runs).toEqual(['cleanUp', 'cleanUp']);
  });

  test.each([
    ['', undefined, ['reconcile other/one']],
    ['without a clean-up', '2026-01-01T00:00:00Z', []],
  ])('is removed %s if it is not needed', async (_, deletionTimestamp, expected) => {
    const metadata = { finalizers, ...(deletionTimestamp !== undefined && { deletionTimestamp }) };
    await world.run(guarded, { [gadgetsPath]: gadgets(gadget({ metadata, spec: { size: 0 } })) });
    const request = await patch();
    expect(request.body).toContainEqual({ op: 'add', path: '/metadata/finalizers', value: ['other/one'] });
    request.json(
      200,
      gadget({ metadata: { ...metadata, finalizers: ['other/one'], resourceVersion: '20' }, spec: { size: 0 } }),
    );
    await eventually('the reconcile', async () => runs.length === expected.length);
    expect(runs).toEqual(expected);
  });

  test('whose cleanUp returns nothing is reported, although the compiler has not seen it', async () => {
    const cleanUp = (async () => undefined) as unknown as () => Promise<typeof cleanedUp>;
    const controller = defineController(Gadget, { reasons, reconcile: async () => made, finalizer: { name, cleanUp } });
    const leaving = gadget({ metadata: { finalizers, deletionTimestamp: '2026-01-01T00:00:00Z' } });
    await world.run(controller, { [gadgetsPath]: gadgets(leaving) });
    (await world.server.next({ method: 'GET', path: gadgetPath })).json(200, leaving);
    expect(await reported(leaving)).toMatchObject({
      reason: 'ReconcileFailed',
      message: expect.stringContaining('cleanUp of Gadget returned nothing: return cleanedUp, or an outcome'),
    });
  });

  test('that the API server refuses is reported', async () => {
    await world.run(guarded, { [gadgetsPath]: gadgets(gadget()) });
    (await patch()).refuse(403, 'Forbidden');
    expect((await reported()).reason).toBe('Refused');
    expect(runs).toEqual([]);
  });
});

test('memory lasts as long as the object', async () => {
  const counts: number[] = [];
  const controller = defineController(Gadget, {
    reasons,
    memory: () => ({ runs: 0 }),
    reconcile: async (_, { memory }) => {
      memory.runs += 1;
      counts.push(memory.runs);
    },
  });
  const streams = await world.run(controller, { [gadgetsPath]: gadgets(gadget()) });
  const labelled = (resourceVersion: string, uid = 'uid-a') =>
    gadget({ metadata: { uid, resourceVersion, labels: { version: resourceVersion } } });
  await idle(1);
  streams[gadgetsPath]?.send('MODIFIED', labelled('20'));
  await idle(2);
  streams[gadgetsPath]?.send('DELETED', labelled('21'));
  await idle(3);
  streams[gadgetsPath]?.send('ADDED', labelled('22', 'uid-b'));
  await idle(4);
  expect(counts).toEqual([1, 2, 1]);
});

test('setUp gives the state, which the sources use and which is disposed after the last reconcile', async () => {
  const order: string[] = [];
  const controller = defineController(Gadget, {
    reasons,
    setUp: async ({ store, namespaces, registry }) => {
      order.push(`set up ${store.size} ${namespaces} ${registry === world.managed.registry}`);
      return { word: 'hi', [Symbol.asyncDispose]: async () => void order.push('disposed') };
    },
    sources: ({ word }) => [(enqueue) => void order.push(`source ${word} ${typeof enqueue}`)],
    reconcile: async (_, { state, gate }) => void order.push(`reconcile ${state.word} ${gate === world.fence}`),
  });
  await world.run(controller, { [gadgetsPath]: gadgets(gadget()) });
  await idle(1);
  world.managed.abort();
  await world.managed.ended;
  expect(order).toEqual(['set up 1 undefined true', 'source hi function', 'reconcile hi true', 'disposed']);
});

test('a status written in mid-reconcile is what the report follows on', async () => {
  const controller = defineController(Gadget, {
    reasons,
    reconcile: async (_, context) => {
      await context.writeStatus({ parts: 7 });
      context.event({ type: 'Normal', reason: 'Written', note: String(context.object.status?.parts) });
      await context.report({ ...made, requeueAfterMs: 60_000 });
    },
  });
  await world.run(controller, { [gadgetsPath]: gadgets(gadget()) });
  const first = await world.server.next({ method: 'PATCH', path: `${gadgetPath}/status` });
  expect(first.body).toMatchObject({ metadata: { resourceVersion: '5' }, status: { parts: 7 } });
  first.json(200, gadget({ metadata: { resourceVersion: '20' }, status: { parts: 7 } }));
  const second = await world.server.next({ method: 'PATCH', path: `${gadgetPath}/status` });
  expect(second.body).toMatchObject({ metadata: { resourceVersion: '20' } });
  second.json(200, gadget({ metadata: { resourceVersion: '21' } }));
  await idle(1, 'requeue_after');
  expect(world.events.all).toEqual(['Normal Written', 'Normal Made']);
});

describe('delete', () => {
  const deleting = (name: string) =>
    defineController(Gadget, {
      owns: [{ kind: Part, write: 'none', deletes: true }],
      reasons,
      reconcile: async (_, { get, delete: remove }) => {
        const found = get(Part, name);
        if (found === undefined) return undefined;
        return { ...made, message: await remove(Part, found, { propagationPolicy: 'Foreground' }) };
      },
    });

  test('deletes a child by uid, and the key runs again when it is gone', async () => {
    await world.run(deleting('p'), { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets(part('p')) });
    const request = await world.server.next({ method: 'DELETE', path: partPath('p') });
    expect(request.body).toMatchObject({ propagationPolicy: 'Foreground', preconditions: { uid: 'uid-p' } });
    request.json(200, { kind: 'Status', apiVersion: 'v1', status: 'Success' });
    expect((await reported()).message).toBe('deleted');
    await idle(2);
  });

  test('refuses what the object does not control', async () => {
    await world.run(deleting('p'), { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets(stored('p', '6')) });
    await idle(1, 'error');
    expect(failure()?.message).toContain('not a child of a');
    expect(world.server.unclaimed).toBe(0);
  });
});

test('adoptAndRelease adopts an orphan by the owner reference of the object', async () => {
  const controller = defineController(Gadget, {
    owns: [{ kind: Part, write: 'none', adopts: true }],
    reasons,
    indexes: { all: { kind: Part, values: () => ['all'] } },
    reconcile: async (_, { find, adoptAndRelease }) => {
      const { children } = await adoptAndRelease(Part, find('all', 'all'), ({ metadata }) => metadata.name === 'p');
      return { ...made, message: children.map(({ metadata }) => metadata.name).join() };
    },
  });
  await world.run(controller, {
    [gadgetsPath]: gadgets(gadget()),
    [partsPath]: gadgets(stored('p', '6'), stored('q', '7')),
  });
  (await asked()).json(200, gadget());
  (await world.server.next({ method: 'GET', path: partPath('p') })).json(200, stored('p', '6'));
  const request = await world.server.next({ method: 'PATCH', path: partPath('p') });
  expect(request.body).toMatchObject({ metadata: { ownerReferences: [{ uid: 'uid-a', controller: true }] } });
  request.json(200, part('p', '20'));
  expect((await reported()).message).toBe('p');
});

test('what the definition does not say that it does is an error that names the member', async () => {
  const controller = defineController(Gadget, {
    owns: [{ kind: Part, write: 'create' }],
    reasons,
    memory: () => ({ runs: 0 }),
    reconcile: async (_, context) => {
      context.memory.runs += 1;
      if (context.memory.runs === 1) await context.apply(Part, {});
      if (context.memory.runs === 2) await context.delete(Part, part('a'));
      if (context.memory.runs === 3) await context.adoptAndRelease(Part, [], () => true);
      if (context.memory.runs === 4) await context.createOnce(Planet, {});
      if (context.memory.runs === 5) await context.createOnce(Part, { metadata: { namespace: 'other' } });
    },
  });
  await world.run(controller, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets() });
  await idle(1);
  const errors = world.managed.log.lines.filter(({ level }) => level === 'error');
  expect(errors.map(({ details }) => (details.err as Error).message)).toEqual([
    expect.stringContaining("Part has no `write: 'apply'`"),
    expect.stringContaining('Part has no `deletes: true`'),
    expect.stringContaining('Part has no `adopts: true`'),
    expect.stringContaining('Planet is not among `owns`'),
    expect.stringContaining('would be in other, and its owner is in default'),
  ]);
});

test('a status is reported all the same if observe throws', async () => {
  const controller = defineController(Gadget, {
    owns: [Part],
    reasons,
    observe: () => {
      throw new Error('no');
    },
    reconcile: async (_, { apply: applyPart }) => void (await applyPart(Part, {})),
  });
  await world.run(controller, { [gadgetsPath]: gadgets(gadget()), [partsPath]: gadgets(stored('a', '6')) });
  expect((await reported()).reason).toBe('NameTaken');
  expect(world.managed.log.messages('error')).toContain('observe threw: the status stays as it is');
});

test('a kind that the definition does not name cannot be read', async () => {
  const controller = defineController(Gadget, {
    reasons,
    reconcile: async (_, { get }) => void get(Part, 'p'),
  });
  await world.run(controller, { [gadgetsPath]: gadgets(gadget()) });
  await idle(1, 'error');
  expect(failure()?.message).toContain('does not name parts.test');
});

describe('a definition', () => {
  const reconcile = async () => undefined;

  test('has its own reasons and the standard ones that it may report', () => {
    expect(Object.keys(onePart.reasons)).toEqual([
      'Made',
      'NameTaken',
      'Replacing',
      'Refused',
      'InvalidSpec',
      'ReconcileFailed',
    ]);
    const alone = defineController(Gadget, { reasons, reconcile });
    expect(Object.keys(alone.reasons)).toEqual(['Made', 'Refused', 'InvalidSpec', 'ReconcileFailed']);
  });

  test('does not declare a standard reason', () => {
    const own = { Refused: { ready: 'False', event: 'Warning', meaning: 'No.' } } as const;
    expect(() => defineController(Gadget, { reasons: own, reconcile })).toThrow('the reason Refused is a standard one');
  });

  test('has a finalizer with a qualified name', () => {
    const finalizer = { name: 'parts', cleanUp: async () => cleanedUp };
    expect(() => defineController(Gadget, { reasons, reconcile, finalizer })).toThrow(
      "the finalizer's name must be qualified, such as example.com/parts",
    );
  });

  test('owns nothing that is cluster-scoped, if it is namespaced', () => {
    expect(() => defineController(Gadget, { owns: [Planet], reasons, reconcile })).toThrow('cluster-scoped');
  });
});
