import { BookStore, bookStoreFinalizer } from '../../api/index.ts';
import { isNotFound } from '../../runtime/client/index.ts';
import { removeFinalizer } from '../../runtime/controller/index.ts';
import {
  type Client,
  deleteIfPresent,
  done,
  type EventRecorder,
  finalizer,
  isControlledBy,
  keyOf,
  type Result,
} from '../../runtime/index.ts';
import { PersistentVolumeClaim, StatefulSet } from '../built-in-kinds.ts';
import { bookStoreUidLabel, statefulSetKey } from './desired.ts';
import { isForeign, statefulSetOfClaim } from './volumes.ts';

/** The StatefulSet's DELETED event enqueues the key; this is the fallback. */
const statefulSetDeletedWithinMs = 60_000;

/** Set by the API server on an object that is deleted with `--cascade=orphan`. */
const orphanFinalizer = 'orphan';

interface ReclaimOptions {
  readonly client: Client;
  readonly events: EventRecorder;
  /** The claims that the database's pods use or will use, by their names, whoever created them. */
  readonly claims: readonly PersistentVolumeClaim[];
  /** Reconciles a BookStore that is not being deleted. */
  readonly apply: (bookStore: BookStore) => Promise<Result>;
  /** Reports that the deletion waits for the StatefulSet, and returns what the reconcile is to return. */
  readonly reportWaiting: (statefulSetName: string, requeueAfterMs: number) => Promise<Result>;
}

/**
 * Reconciles `bookDB.reclaimPolicy`, and calls `apply` while the BookStore is not being deleted.
 *
 * The policy that counts is the one at the moment of deletion. An owner reference on a claim would freeze an earlier one,
 * so claims have none, and the BookStore has a finalizer while its policy is Delete.
 */
export async function reconcileReclaimPolicy(bookStore: BookStore, options: ReclaimOptions): Promise<Result> {
  const { client, apply } = options;
  const deletes = bookStore.spec?.bookDB?.reclaimPolicy === 'Delete';
  const isLeaving = bookStore.metadata.deletionTimestamp !== undefined;
  const hasFinalizer = bookStore.metadata.finalizers?.includes(bookStoreFinalizer) ?? false;
  if (deletes || (isLeaving && hasFinalizer)) {
    return finalizer({
      client,
      kind: BookStore,
      object: bookStore,
      name: bookStoreFinalizer,
      apply,
      cleanup: () => (deletes ? deleteData(bookStore, options) : Promise.resolve(done)),
    });
  }
  if (isLeaving) return done;
  const current = await removeFinalizer(client, BookStore, bookStore, bookStoreFinalizer);
  return current === undefined ? done : apply(current);
}

/**
 * Deletes the StatefulSet, which would create the claims again, and then the claims that it created for this BookStore.
 * Every other claim is kept and named in an Event: its data is somebody else's, or was there before this BookStore.
 *
 * StatefulSet and claims are read from the API server, and deleted only as they were read: the cache may still show an owner,
 * or a label, that was removed to keep the data. The finalizer `orphan` is set together with the deletionTimestamp, so the
 * cache shows both or none.
 */
async function deleteData(
  bookStore: BookStore,
  { client, events, claims, reportWaiting }: ReclaimOptions,
): Promise<Result> {
  if (bookStore.metadata.finalizers?.includes(orphanFinalizer)) return done;
  const statefulSet = await liveStatefulSet(client, bookStore);
  if (statefulSet !== undefined && isControlledBy(statefulSet, bookStore)) {
    const { uid, resourceVersion, deletionTimestamp } = statefulSet.metadata;
    if (deletionTimestamp === undefined) {
      await deleteIfPresent(client, StatefulSet, keyOf(statefulSet), { uid, resourceVersion });
    }
    return reportWaiting(statefulSet.metadata.name, statefulSetDeletedWithinMs);
  }
  // A StatefulSet that is not ours may have taken up our claims: they are its data now.
  const deleted = statefulSet === undefined ? await claimsCreatedFor(bookStore, client) : [];
  for (const { metadata } of deleted) {
    const { uid, resourceVersion, deletionTimestamp } = metadata;
    if (deletionTimestamp !== undefined) continue;
    await deleteIfPresent(client, PersistentVolumeClaim, keyOf({ metadata }), { uid, resourceVersion });
  }
  const deletedUids = new Set(deleted.map(({ metadata }) => metadata.uid));
  const kept = claims.filter(({ metadata }) => !deletedUids.has(metadata.uid)).map(({ metadata }) => metadata.name);
  if (kept.length > 0) {
    const why =
      statefulSet === undefined
        ? `without the label ${bookStoreUidLabel} of this BookStore`
        : `used by StatefulSet ${statefulSet.metadata.name}, which is not this BookStore's`;
    const note = `reclaimPolicy Delete kept ${kept.join(', ')}: ${why}. Delete what is not needed`;
    events.record(BookStore, bookStore, { type: 'Warning', reason: 'DataKept', action: 'Delete', note });
  }
  return done;
}

async function liveStatefulSet(client: Client, bookStore: BookStore): Promise<StatefulSet | undefined> {
  try {
    return await client.get(StatefulSet, statefulSetKey(bookStore));
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** The label alone is not enough: somebody may have copied it to a claim of another name, a backup for instance. */
async function claimsCreatedFor(bookStore: BookStore, client: Client): Promise<readonly PersistentVolumeClaim[]> {
  const { namespace = '', uid } = bookStore.metadata;
  const { name } = statefulSetKey(bookStore);
  const { items } = await client.list(PersistentVolumeClaim, {
    namespace,
    labelSelector: `${bookStoreUidLabel}=${uid}`,
  });
  return items.filter((claim) => statefulSetOfClaim(claim)?.name === name && !isForeign(claim, name));
}
