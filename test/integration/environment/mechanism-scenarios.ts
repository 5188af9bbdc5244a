/**
 * Scenarios of the runtime's mechanisms, with controllers that rely on nothing else: the project's own controllers
 * would survive most defects of the runtime. They use a kind of their own, so only a simulation runs them.
 */
import { setTimeout as delay } from 'node:timers/promises';
import {
  type Client,
  child,
  cleanedUp,
  controllerReference,
  defineController,
  defineKind,
  done,
  type ObjectOf,
  type Operator,
  owns,
} from '@echoperator/runtime';
import { isAlreadyExists, isNotFound } from '@echoperator/runtime/client';
import { ConfigMap, Event } from '@echoperator/runtime/kinds';
import type { Scenario, ScenarioWorld } from '@echoperator/testing';
import Type from 'typebox';

const name = 'hello';

const integer = (description: string) => Type.Optional(Type.Integer({ description }));

/** What the scenarios' objects are. */
export const Widget = defineKind({
  group: 'example.com',
  version: 'v1',
  kind: 'Widget',
  plural: 'widgets',
  description: 'Widget is for tests of the runtime.',
  spec: Type.Object({
    size: Type.Integer({ description: 'What the controllers act on.' }),
    part: Type.Optional(Type.String({ description: 'The name of the child. Default: that of the Widget.' })),
  }),
  status: Type.Object({
    out: integer('What the child says.'),
    seen: integer('The size that the second controller has seen.'),
    twice: integer('Twice what the first controller has written.'),
    stamp: integer('Another one with each reconcile.'),
    large: integer('The size, if it is above 10.'),
    part: Type.Optional(Type.String({ description: 'The name of what was created.' })),
  }),
});
const widgetOf = (size: number, part?: string) => ({ metadata: { name }, spec: { size, ...(part && { part }) } });

const key = (namespace: string, of = name) => ({ namespace, name: of });

const create =
  (size: number, part?: string) =>
  ({ client, namespace }: ScenarioWorld) =>
    client.create(Widget, { ...widgetOf(size, part), metadata: { name, namespace } });

const resize =
  (size: number, part?: string) =>
  ({ client, namespace }: ScenarioWorld) =>
    client.patch(Widget, key(namespace), { type: 'merge', body: { spec: widgetOf(size, part).spec } });

const remove = ({ client, namespace }: ScenarioWorld) => client.delete(Widget, key(namespace));

const reportSeen = (client: Client, { metadata, spec }: ObjectOf<typeof Widget>) =>
  client.mergeStatus(Widget, metadata, { observedGeneration: metadata.generation, seen: spec.size });

/** Lets some steps of a simulation pass. */
const soon = (steps: number) => delay(steps);

function ignoreNotFound(error: unknown): void {
  if (!isNotFound(error)) throw error;
}

const ifPresent = (action: Promise<unknown>) => action.catch(ignoreNotFound);

const ifAbsent = (action: Promise<unknown>) =>
  action.catch((error: unknown) => {
    if (!isAlreadyExists(error)) throw error;
  });

const patchPart = ({ client, namespace }: ScenarioWorld, body: object, part = name) =>
  ifPresent(client.patch(ConfigMap, key(namespace, part), { type: 'merge', body }));

/** Somebody puts an object of the child's name in its place. */
const replacePart = async ({ client, namespace }: ScenarioWorld, part = name, labels = {}) => {
  await ifPresent(client.delete(ConfigMap, key(namespace, part)));
  await ifAbsent(client.create(ConfigMap, { metadata: { ...key(namespace, part), labels }, data: { foreign: 'yes' } }));
};

const deletePart = ({ client, namespace }: ScenarioWorld, part = name) =>
  ifPresent(client.delete(ConfigMap, key(namespace, part)));

/**
 * Two controllers of one kind without predicates, which write the same objects: the model of
 * `own-writes-model.test.ts`. The first keeps a child of the Widget's size and stamps the status with each reconcile,
 * so it would loop on its own writes.
 */
function addTwoControllers({ manager }: Operator, namespace: string): void {
  const scope = { namespaces: [namespace] };
  const widgets = manager.informer(Widget, scope).store;
  const parts = manager.informer(ConfigMap, scope).store;
  let stamp = 0;
  manager.controller(Widget, {
    name: 'maker',
    watches: [owns(Widget, ConfigMap)],
    reconcile: async (at, { client }) => {
      const widget = widgets.get(at);
      if (widget === undefined) return done;
      const size = String(widget.spec.size);
      const metadata = { ...at, ownerReferences: [controllerReference(Widget, widget)] };
      const part = parts.get(at);
      if (part === undefined) {
        const live = await client.get(Widget, at).catch(ignoreNotFound);
        if (live === undefined || live.metadata.uid !== widget.metadata.uid) return done;
        await client.create(ConfigMap, { metadata, data: { size } });
      } else if (part.data?.size !== size) {
        const { uid } = part.metadata;
        if (widget.spec.size % 3 === 0) {
          await client.delete(ConfigMap, at, { uid });
          // The deletion enqueues the key, and that reconcile creates the child.
          return done;
        }
        await client.apply(ConfigMap, { metadata, data: { size } }, { force: true, uid });
      }
      const current = widgets.get(at);
      if (current === undefined) return done;
      const { resourceVersion, generation } = widget.metadata;
      stamp += 1;
      const out = Number(parts.get(at)?.data?.out ?? 0);
      await client.mergeStatus(
        Widget,
        { ...at, resourceVersion: current.metadata.resourceVersion ?? resourceVersion },
        { observedGeneration: generation, out, stamp },
      );
      return done;
    },
  });
  manager.controller(Widget, {
    name: 'observer',
    reconcile: async (at, { client }) => {
      const widget = widgets.get(at);
      const { seen, twice = 0, out = 0 } = widget?.status ?? {};
      if (widget === undefined || (seen === widget.spec.size && twice === 2 * out)) return done;
      const body = { status: { seen: widget.spec.size, twice: 2 * out } };
      const written = client.patch(Widget, at, { type: 'merge', body }, { subresource: 'status' });
      if (widget.spec.size !== 4) {
        await written;
        return done;
      }
      // As a reconcile that sends several requests and ends with the first that fails.
      written.catch(() => {});
      throw new Error('it does not wait');
    },
  });
}

const twoControllers: Scenario = {
  name: 'two-controllers',
  kinds: [Widget, ConfigMap],
  addControllers: addTwoControllers,
  mayDiffer: (path) => path.endsWith('.status.stamp'),
  steps: {
    create: create(1),
    'resized-and-edited': async (world) => {
      await resize(2)(world);
      await soon(2);
      await patchPart(world, { data: { out: '1' } });
      await soon(1);
      await patchPart(world, { data: { out: '2' } });
    },
    'same-done-by-another': async (world) => {
      await resize(5)(world);
      await soon(3);
      await patchPart(world, { data: { size: '5' } });
      await soon(3);
      await patchPart(world, { data: { size: '4' } });
    },
    replaced: resize(3),
    'deleted-and-resized': async (world) => {
      await deletePart(world);
      await soon(1);
      await resize(4)(world);
      await soon(2);
      await patchPart(world, { data: { out: '3' } });
      await soon(2);
      await deletePart(world);
    },
    'replaced-again': async (world) => {
      await resize(6)(world);
      await soon(3);
      await resize(7)(world);
    },
    'status-overwritten': ({ client, namespace }) => {
      const body = { status: { out: -1, seen: -1, twice: -1 } };
      return client.patch(Widget, key(namespace), { type: 'merge', body }, { subresource: 'status' });
    },
    delete: remove,
  },
};

/**
 * The controller deletes a child that has just changed: if the server forgets that change, it may list the child
 * meanwhile.
 */
const deletedDuringList: Scenario = {
  name: 'deleted-during-list',
  kinds: [Widget, ConfigMap],
  addControllers: addTwoControllers,
  mayDiffer: (path) => path.endsWith('.status.stamp'),
  steps: {
    create: create(1),
    'changed-and-deleted': async (world) => {
      await resize(2)(world);
      await soon(4);
      await resize(3)(world);
    },
    delete: remove,
  },
};

/**
 * An apply fails, because somebody replaces the child meanwhile. Later somebody changes the child to what that apply
 * has sent.
 */
const replacedDuringApply: Scenario = {
  name: 'replaced-during-apply',
  kinds: [Widget, ConfigMap],
  addControllers: addTwoControllers,
  mayDiffer: (path) => path.endsWith('.status.stamp'),
  restores: { edited: 'resized' },
  steps: {
    create: create(1),
    'resized-and-replaced': async (world) => {
      await resize(5)(world);
      await soon(1);
      await replacePart(world);
    },
    resized: resize(7),
    edited: (world) => patchPart(world, { data: { size: '5' } }),
    delete: remove,
  },
};

/** The child leaves and enters the selection of its cache, by its controller and by others. */
const selected: Scenario = {
  name: 'selected',
  kinds: [Widget],
  addControllers: ({ manager }, namespace) => {
    const widgets = manager.informer(Widget, { namespaces: [namespace] }).store;
    const informer = { namespaces: [namespace], labelSelector: 'part-of=widgets' };
    const parts = manager.informer(ConfigMap, informer).store;
    manager.controller(Widget, {
      watches: [owns(Widget, ConfigMap, { informer })],
      reconcile: async (at, { client }) => {
        const widget = widgets.get(at);
        if (widget === undefined) return done;
        const { size } = widget.spec;
        const part = parts.get(at);
        const labels = { 'part-of': size < 10 || size >= 20 ? 'widgets' : 'others' };
        const metadata = { ...at, labels, ownerReferences: [controllerReference(Widget, widget)] };
        if (size >= 20) {
          // Another client may have taken it out of the selection, which the cache does not show yet.
          if (part !== undefined) {
            const applied = await client.apply(ConfigMap, { metadata, data: { size: '1' } }, { force: true });
            await client.delete(ConfigMap, at, { uid: applied.metadata.uid });
          }
        } else if (part === undefined || part.data?.size !== String(size))
          await client.apply(ConfigMap, { metadata, data: { size: String(size) } }, { force: true });
        await reportSeen(client, widget);
        return done;
      },
    });
  },
  steps: {
    create: create(1),
    out: resize(11),
    back: resize(2),
    'taken-out': async (world) => {
      await patchPart(world, { metadata: { labels: { 'part-of': 'others' } } });
      await resize(25)(world);
    },
    again: resize(4),
    'taken-out-again': async (world) => {
      await resize(5)(world);
      await soon(2);
      await patchPart(world, { metadata: { labels: { 'part-of': 'others' } } });
      await resize(6)(world);
      await soon(2);
      await resize(26)(world);
    },
    'made-again': resize(7),
    // The response to the controller's apply is the first to show what others have done meanwhile.
    'edited-meanwhile': async (world) => {
      await resize(8)(world);
      await soon(1);
      await patchPart(world, { data: { foreign: 'yes' } });
    },
    'replaced-meanwhile': async (world) => {
      await resize(9)(world);
      await soon(1);
      await replacePart(world, name, { 'part-of': 'widgets' });
    },
    delete: remove,
  },
};

/** The runtime cannot read the field selector, so it takes an Event that it creates for one that the cache has. */
const unreadableSelector: Scenario = {
  name: 'unreadable-selector',
  kinds: [Widget],
  addControllers: ({ manager }, namespace) => {
    const widgets = manager.informer(Widget, { namespaces: [namespace] }).store;
    const informer = { namespaces: [namespace], fieldSelector: 'type=Warning' };
    const events = manager.informer(Event, informer).store;
    manager.controller(Widget, {
      watches: [owns(Widget, Event, { informer })],
      reconcile: async (at, { client }) => {
        const widget = widgets.get(at);
        if (widget === undefined) return done;
        const { size } = widget.spec;
        const note = { ...at, name: `note-${size}` };
        if (widget.status?.seen !== size) {
          const created = await client
            .create(Event, {
              metadata: { ...note, ownerReferences: [controllerReference(Widget, widget)] },
              type: 'Normal',
              reason: 'Noted',
              action: 'Note',
              note: 'noted',
              eventTime: '2030-01-01T00:00:00.000000Z',
              reportingController: 'example.com/widgets',
              reportingInstance: 'widgets',
              regarding: { apiVersion: 'example.com/v1', kind: 'Widget', ...at },
            })
            .catch((error: unknown) => {
              if (!isAlreadyExists(error)) throw error;
              return events.get(note);
            });
          if (size % 2 === 0 && created !== undefined)
            await client.delete(Event, note, { uid: created.metadata.uid }).catch(ignoreNotFound);
        }
        await reportSeen(client, widget);
        return done;
      },
    });
  },
  steps: { create: create(1), 'created-and-deleted': resize(2), again: resize(4), delete: remove },
};

/** What the controller creates has no owner, so only the status tells its name, and only the finalizer removes it. */
const ledgerController = defineController(Widget, {
  reasons: { Kept: { ready: 'True', event: 'Normal', meaning: 'The ConfigMap is there.' } },
  reconcile: async ({ metadata: { namespace = '', name: of }, spec, status }, { client, writeStatus }) => {
    const part = status?.part ?? `${of}-${crypto.randomUUID().slice(0, 5)}`;
    if (status?.part === undefined) await writeStatus({ part });
    await ifAbsent(client.create(ConfigMap, { metadata: { namespace, name: part } }));
    const large = spec.size > 10 ? spec.size : undefined;
    return { reason: 'Kept', message: `ConfigMap of size ${spec.size}`, status: { part, large } };
  },
  finalizer: {
    name: 'example.com/ledger',
    cleanUp: async ({ metadata: { namespace = '' }, status }, { client }) => {
      if (status?.part !== undefined)
        await client.delete(ConfigMap, { namespace, name: status.part }).catch(ignoreNotFound);
      return cleanedUp;
    },
  },
});

const [earlierFinalizer, userFinalizer] = ['example.com/earlier', 'example.com/user'];

const ledger: Scenario = {
  name: 'ledger',
  kinds: [Widget, ConfigMap],
  canonicalName: (of) => of.replace(/^hello-\w+/, 'hello-*'),
  restores: { shrunk: 'create' },
  addControllers: (operator, namespace) => void ledgerController.add(operator, { namespaces: [namespace] }),
  steps: {
    // A user replaces a finalizer, perhaps while the controller adds its own.
    create: async ({ client, namespace }) => {
      await client.create(Widget, { ...widgetOf(1), metadata: { ...key(namespace), finalizers: [earlierFinalizer] } });
      await soon(2);
      const { metadata } = await client.get(Widget, key(namespace));
      const finalizers = metadata.finalizers?.map((each) => (each === earlierFinalizer ? userFinalizer : each));
      await client.patch(Widget, key(namespace), { type: 'merge', body: { metadata: { finalizers } } });
    },
    grown: resize(11),
    shrunk: resize(1),
    'user-finalizer-removed': async ({ client, namespace }) => {
      const { metadata } = await client.get(Widget, key(namespace));
      const finalizers = metadata.finalizers?.filter((each) => each !== userFinalizer) ?? [];
      await client.patch(Widget, key(namespace), { type: 'merge', body: { metadata: { finalizers } } });
    },
    delete: remove,
  },
};

/** Keeps one child, whose name the spec says, and prunes others. */
const pruningController = defineController(Widget, {
  owns: [{ kind: ConfigMap, deletes: true }],
  reasons: { Kept: { ready: 'True', event: 'Normal', meaning: 'The ConfigMap is there.' } },
  reconcile: async ({ metadata: { name: of }, spec }, { applyAll }) => {
    const part = spec.part ?? of;
    await applyAll([child(ConfigMap, { metadata: { name: part }, data: { size: String(spec.size) } })], {
      prune: true,
    });
    return { reason: 'Kept', message: `ConfigMap ${part} of size ${spec.size}` };
  },
});

const pruned: Scenario = {
  name: 'pruned',
  kinds: [Widget, ConfigMap],
  addControllers: (operator, namespace) => void pruningController.add(operator, { namespaces: [namespace] }),
  restores: { resized: 'create', edited: 'create' },
  steps: {
    create: create(1),
    resized: async (world) => {
      await resize(2)(world);
      await soon(2);
      await resize(1)(world);
    },
    edited: (world) => patchPart(world, { data: { size: '7' } }),
    'renamed-and-replaced': async (world) => {
      await resize(1, 'other')(world);
      await soon(3);
      await replacePart(world);
    },
    'resized-and-replaced': async (world) => {
      await resize(2, 'other')(world);
      await soon(3);
      await replacePart(world, 'other');
    },
    freed: async (world) => {
      await deletePart(world);
      await deletePart(world, 'other');
    },
    delete: remove,
  },
};

export const mechanismScenarios: readonly Scenario[] = [
  twoControllers,
  deletedDuringList,
  replacedDuringApply,
  selected,
  unreadableSelector,
  ledger,
  pruned,
];
