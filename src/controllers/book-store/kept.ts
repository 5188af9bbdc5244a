import { BookStore } from '../../api/index.ts';
import {
  type Client,
  controllerReference,
  isControlledBy,
  isNotFound,
  keyOf,
  type Manifest,
  type OwnerReference,
  type ReadonlyStore,
} from '../../runtime/index.ts';
import { ControllerRevision, type StatefulSet } from '../built-in-kinds.ts';
import type { Fixed } from './database-children.ts';
import { recreationKey, statefulSetKey } from './names.ts';

/** On what is kept for a recreation, and on nothing that a StatefulSet's controller would take for its own. */
export const recreationLabels = { 'blog.velotio.com/recreation': 'true' } as const;

/** As {@link recreationLabels}, for a list. */
export const recreationSelector = 'blog.velotio.com/recreation=true';

/** What of a StatefulSet comes back when it is made anew: all that anybody has set. */
export interface Kept {
  readonly metadata: {
    /** Of the one that was there before. */
    readonly uid: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly ownerReferences?: readonly OwnerReference[];
    /** Who has set what. */
    readonly managedFields?: readonly unknown[];
  };
  readonly spec: StatefulSet['spec'];
  /** What it is made anew for. */
  readonly fixed: Fixed;
  /** Of the BookStore then. */
  readonly generation: number;
}

/** What is kept of a BookStore's StatefulSet, if one is being made anew. */
export function keptOf(revisions: ReadonlyStore<ControllerRevision>, store: BookStore): ControllerRevision | undefined {
  const revision = revisions.get(recreationKey(store));
  return revision !== undefined && isControlledBy(revision, store) ? revision : undefined;
}

/** The same past the cache, which after a change of the leader may be of before. */
export async function readKept(store: BookStore, client: Client): Promise<ControllerRevision | undefined> {
  try {
    const revision = await client.get(ControllerRevision, recreationKey(store));
    return isControlledBy(revision, store) ? revision : undefined;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** Whether the StatefulSet that is there is the one that was kept, and not its successor. */
export const isKept = (revision: ControllerRevision, { metadata }: StatefulSet): boolean =>
  dataOf(revision).metadata.uid === metadata.uid;

/** Whether the BookStore has been changed since. */
export const isOlder = (revision: ControllerRevision, { metadata }: BookStore): boolean =>
  dataOf(revision).generation !== metadata.generation;

/** The same StatefulSet again, but for what it is made anew for. */
export function successorOf(store: BookStore, { metadata, spec, fixed }: Kept): Manifest<StatefulSet> {
  const { labels, annotations, ownerReferences = [] } = metadata;
  const others = ownerReferences.filter(({ uid }) => uid !== store.metadata.uid);
  return {
    metadata: {
      ...statefulSetKey(store),
      ...(labels && { labels }),
      ...(annotations && { annotations }),
      ownerReferences: [...others, controllerReference(BookStore, store)],
    },
    ...(spec && {
      spec: {
        ...spec,
        serviceName: fixed.serviceName,
        volumeClaimTemplates: spec.volumeClaimTemplates?.map((template) => sized(template, fixed.size)) ?? [],
      },
    }),
  };
}

type ClaimTemplate = NonNullable<NonNullable<Kept['spec']>['volumeClaimTemplates']>[number];

/** All that it has been but for its size, also what others have set when it was made. */
function sized(template: ClaimTemplate, storage: string): ClaimTemplate {
  const { spec } = template;
  const requests = { ...spec?.resources?.requests, storage };
  return { ...template, spec: { ...spec, resources: { ...spec?.resources, requests } } };
}

/** What was kept goes, if it is there. */
export async function forget(revision: ControllerRevision, client: Client): Promise<void> {
  try {
    await client.delete(ControllerRevision, keyOf(revision), { uid: revision.metadata.uid });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

/** A StatefulSet as it comes from the API server, which the store has without this. */
export type WithManagedFields = StatefulSet & { readonly metadata: { readonly managedFields?: readonly unknown[] } };

/** What is to be kept of one that is there. */
export function keptFrom({ metadata, spec }: WithManagedFields, fixed: Fixed, store: BookStore): Kept {
  const { uid, labels, annotations, ownerReferences, managedFields } = metadata;
  return {
    metadata: {
      uid,
      ...(labels && { labels }),
      ...(annotations && { annotations }),
      ...(ownerReferences && { ownerReferences }),
      // Of its status it need not be told, and that changes all the time.
      ...(managedFields && { managedFields: managedFields.filter(isOfSpec) }),
    },
    spec,
    fixed,
    generation: store.metadata.generation,
  };
}

/** Whether an entry of the managed fields is of other things than the status. */
export const isOfSpec = (entry: unknown): boolean =>
  !(typeof entry === 'object' && entry !== null && 'subresource' in entry && entry.subresource === 'status');

/** Nobody but the first step of a recreation writes it, and its data never changes. */
export const dataOf = ({ data }: ControllerRevision): Kept => data as Kept;
