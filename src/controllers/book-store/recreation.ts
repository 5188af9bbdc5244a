import { isDeepStrictEqual } from 'node:util';
import { BookStore } from '../../api/index.ts';
import {
  type Applied,
  type Applier,
  apiVersionOf,
  type Client,
  controllerReference,
  isAlreadyExists,
  isControlledBy,
  isNotFound,
  type Kind,
  type KubeObject,
  keyOf,
  type Manifest,
  type ReadonlyStore,
} from '../../runtime/index.ts';
import { ControllerRevision, Pod, StatefulSet } from '../built-in-kinds.ts';
import { isDryRunUnsupported, isRefusal, wordsOf } from '../refusal.ts';
import { isCurrent } from '../report-ready.ts';
import type { Fixed } from './database-children.ts';
import { dataOf, forget, isOfSpec, keptFrom, recreationLabels, successorOf, type WithManagedFields } from './kept.ts';
import { recreationKey, selectorLabels } from './names.ts';

/** How the first step has gone. */
export type Beginning =
  /** The StatefulSet goes, or has changed meanwhile; an event tells. */
  | { readonly type: 'begun' }
  /** The name of what is kept is somebody else's. */
  | { readonly type: 'nameTaken'; readonly holder: KubeObject }
  /** Something of it may not be done: nothing was deleted. */
  | { readonly type: 'refused'; readonly words: string };

/** Where to read and how to write. */
interface RecreationOptions {
  readonly client: Client;
  readonly applier: Applier;
  readonly revisions: ReadonlyStore<ControllerRevision>;
}

/**
 * The first step of making a StatefulSet anew under its running pods, which is the only way to change its claims'
 * template: what it is goes into a ControllerRevision, then it is deleted, and its pods are left alone. Nothing but that
 * object knows the whole of it then: what others have set, and a template that the BookStore has changed meanwhile.
 *
 * Before that the API server is asked whether it would have the successor: without one its pods would be nobody's.
 *
 * Its pods and revisions get the BookStore as an owner, for in between they have no other that the garbage collector
 * could follow if it is deleted now.
 *
 * @throws Conflict where the StatefulSet has changed since it was read; whatever else the client throws, but for a refusal.
 */
export async function beginRecreation(
  store: BookStore,
  statefulSet: StatefulSet,
  fixed: Fixed,
  options: RecreationOptions,
): Promise<Beginning> {
  try {
    return await begin(store, statefulSet, fixed, options);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return { type: 'refused', words: wordsOf(error) };
  }
}

async function begin(
  store: BookStore,
  statefulSet: StatefulSet,
  fixed: Fixed,
  { client, applier, revisions }: RecreationOptions,
): Promise<Beginning> {
  const live = await client.get(StatefulSet, keyOf(statefulSet));
  const { uid, resourceVersion, deletionTimestamp } = live.metadata;
  // The next event tells of it.
  if (uid !== statefulSet.metadata.uid || deletionTimestamp !== undefined || !isControlledBy(live, store)) {
    return { type: 'begun' };
  }
  if (!(await isCurrent(client, BookStore, store))) return { type: 'begun' };
  const kept = keptFrom(live, fixed, store);
  await tryOut(successorOf(store, kept), client);
  const revision: Manifest<ControllerRevision> = {
    metadata: {
      ...recreationKey(store),
      labels: recreationLabels,
      ownerReferences: [controllerReference(BookStore, store)],
    },
    revision: 1,
    data: kept,
  };
  const made = await applier.createOnce(ControllerRevision, revision, { client, store: revisions });
  if (made.type === 'nameTaken') return made;
  if (made.type === 'terminating') {
    return {
      type: 'refused',
      words: `ControllerRevision ${made.object.metadata.name} is being deleted and does not go`,
    };
  }
  if (!isDeepStrictEqual(made.object.data, revision.data)) {
    // It has changed since, and a revision cannot: another is made when this one is gone.
    await client.delete(ControllerRevision, keyOf(made.object), { uid: made.object.metadata.uid });
    return { type: 'begun' };
  }
  for (const kind of [Pod, ControllerRevision]) await shareDependents(kind, store, live, client);
  await client.delete(StatefulSet, keyOf(live), { uid, resourceVersion, propagationPolicy: 'Orphan' });
  return { type: 'begun' };
}

/** @throws the API server's refusal of such an object, under a name that is nobody's. */
async function tryOut(successor: Manifest<StatefulSet>, client: Client): Promise<void> {
  const { metadata } = successor;
  const trial = { ...successor, metadata: { ...metadata, name: `${metadata.name}-trial` } };
  try {
    await client.create(StatefulSet, trial, { dryRun: true });
  } catch (error) {
    // Whether the name is free is looked at when all else is right.
    if (!isAlreadyExists(error) && !isDryRunUnsupported(error)) throw error;
  }
}

/**
 * The second step, when it is gone: the same StatefulSet again, to the last field of its pods' template, but for what it
 * was made anew for. So its controller takes the pods up again as they are.
 */
export function recreate(
  store: BookStore,
  revision: ControllerRevision,
  { client, statefulSets, applier }: Omit<RecreationOptions, 'revisions'> & StatefulSets,
): Promise<Applied<StatefulSet>> {
  return applier.createOnce(StatefulSet, successorOf(store, dataOf(revision)), { client, store: statefulSets });
}

interface StatefulSets {
  readonly statefulSets: ReadonlyStore<StatefulSet>;
}

/**
 * The last step: who has set which field is as it was before, and what was kept goes. Without it each field would be the
 * creator's too, and none would go any more when the BookStore no longer has it. (As client-go's csaupgrade, which also
 * replaces the list as of one resourceVersion.)
 *
 * @throws Conflict where the StatefulSet has changed since it was read; whatever else the client throws.
 */
export async function endRecreation(
  statefulSet: StatefulSet,
  revision: ControllerRevision,
  client: Client,
): Promise<void> {
  const live: WithManagedFields = await client.get(StatefulSet, keyOf(statefulSet));
  const { uid, resourceVersion, managedFields = [] } = live.metadata;
  // The next event tells of the other one.
  if (uid !== statefulSet.metadata.uid) return;
  const before = dataOf(revision).metadata.managedFields ?? [];
  await client.patch(StatefulSet, keyOf(statefulSet), {
    type: 'json',
    body: [
      { op: 'add', path: '/metadata/resourceVersion', value: resourceVersion },
      {
        op: 'add',
        path: '/metadata/managedFields',
        value: [...before, ...managedFields.filter((entry) => !isOfSpec(entry))],
      },
    ],
  });
  await forget(revision, client);
}

async function shareDependents(kind: Kind, store: BookStore, statefulSet: StatefulSet, client: Client): Promise<void> {
  const { name, namespace = '', uid } = store.metadata;
  const labels = Object.entries(selectorLabels(store, 'database'));
  const labelSelector = labels.map(([label, value]) => `${label}=${value}`).join(',');
  const { items } = await client.list(kind, { namespace, labelSelector });
  for (const { metadata } of items.filter((item) => isControlledBy(item, statefulSet))) {
    const { ownerReferences = [], resourceVersion } = metadata;
    if (ownerReferences.some((owner) => owner.uid === uid)) continue;
    const owner = { apiVersion: apiVersionOf(BookStore), kind: BookStore.kind, name, uid };
    const body = { metadata: { uid: metadata.uid, resourceVersion, ownerReferences: [...ownerReferences, owner] } };
    try {
      await client.patch(kind, keyOf({ metadata }), { type: 'merge', body });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }
}
