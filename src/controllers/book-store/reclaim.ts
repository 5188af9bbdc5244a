import { BookStore, bookStoreFinalizer } from '../../api/index.ts';
import {
  type Client,
  done,
  type EventRecorder,
  finalizer,
  isConflict,
  isControlledBy,
  isNotFound,
  keyOf,
  type Result,
  requeueAfter,
} from '../../runtime/index.ts';
import { PersistentVolumeClaim, StatefulSet } from '../built-in-kinds.ts';
import { isForeign, statefulSetOfClaim } from './claims.ts';
import { bookStoreUidLabel, statefulSetKey } from './names.ts';

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
}

/**
 * Reconciles `bookDB.reclaimPolicy`, and calls `apply` while the BookStore is not being deleted.
 *
 * The policy that counts is the one at the moment of deletion. An owner reference on a claim would freeze an earlier one,
 * so claims have none, and the BookStore has a finalizer while its policy is Delete.
 */
export async function reconcileReclaimPolicy(store: BookStore, options: ReclaimOptions): Promise<Result> {
  const { client, apply } = options;
  const deletes = store.spec?.bookDB?.reclaimPolicy === 'Delete';
  const isLeaving = store.metadata.deletionTimestamp !== undefined;
  const hasFinalizer = store.metadata.finalizers?.includes(bookStoreFinalizer) ?? false;
  if (deletes || (isLeaving && hasFinalizer)) {
    return finalizer({
      client,
      kind: BookStore,
      object: store,
      name: bookStoreFinalizer,
      apply,
      cleanup: () => (deletes ? deleteData(store, options) : Promise.resolve(done)),
    });
  }
  if (isLeaving) return done;
  return apply(hasFinalizer ? await withoutFinalizer(client, store) : store);
}

/**
 * Deletes the StatefulSet, which would create the claims again, and then the claims that it created for this BookStore.
 * Every other claim is kept and named in an Event: its data is somebody else's, or was there before this BookStore.
 *
 * Both are read from the API server: the cache may still show an owner, or a label, that was removed to keep the data.
 */
async function deleteData(store: BookStore, { client, events, claims }: ReclaimOptions): Promise<Result> {
  if (store.metadata.finalizers?.includes(orphanFinalizer)) return done;
  const statefulSet = await liveStatefulSet(client, store);
  if (statefulSet !== undefined && isControlledBy(statefulSet, store)) {
    const { uid, resourceVersion, deletionTimestamp } = statefulSet.metadata;
    if (deletionTimestamp === undefined) {
      await client.delete(StatefulSet, keyOf(statefulSet), { uid, resourceVersion });
    }
    return requeueAfter(statefulSetDeletedWithinMs);
  }
  // A StatefulSet that is not ours may have taken up our claims: they are its data now.
  const deleted = statefulSet === undefined ? await claimsCreatedFor(store, client) : [];
  for (const claim of deleted) await deleteIfPresent(client, claim);
  const deletedUids = new Set(deleted.map(({ metadata }) => metadata.uid));
  const kept = claims.filter(({ metadata }) => !deletedUids.has(metadata.uid)).map(({ metadata }) => metadata.name);
  if (kept.length > 0) {
    const why =
      statefulSet === undefined
        ? 'created for another BookStore or by hand'
        : `used by StatefulSet ${statefulSet.metadata.name}, which is not this BookStore's`;
    const note = `reclaimPolicy Delete kept ${kept.join(', ')}: ${why}. Delete what is not needed`;
    events.record(BookStore, store, { type: 'Warning', reason: 'DataKept', action: 'Delete', note });
  }
  return done;
}

async function liveStatefulSet(client: Client, store: BookStore): Promise<StatefulSet | undefined> {
  try {
    return await client.get(StatefulSet, statefulSetKey(store));
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** The label alone is not enough: somebody may have copied it to a claim of another name, a backup for instance. */
async function claimsCreatedFor(store: BookStore, client: Client): Promise<readonly PersistentVolumeClaim[]> {
  const { namespace = '', uid } = store.metadata;
  const { name } = statefulSetKey(store);
  const { items } = await client.list(PersistentVolumeClaim, {
    namespace,
    labelSelector: `${bookStoreUidLabel}=${uid}`,
  });
  return items.filter((claim) => statefulSetOfClaim(claim) === `${namespace}/${name}` && !isForeign(claim, name));
}

async function deleteIfPresent(client: Client, claim: PersistentVolumeClaim): Promise<void> {
  const { uid, deletionTimestamp } = claim.metadata;
  if (deletionTimestamp !== undefined) return;
  try {
    await client.delete(PersistentVolumeClaim, keyOf(claim), { uid });
  } catch (error) {
    // Another claim of this name is not the one that was listed.
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}

async function withoutFinalizer(client: Client, store: BookStore): Promise<BookStore> {
  const finalizers = store.metadata.finalizers?.filter((name) => name !== bookStoreFinalizer) ?? [];
  const { resourceVersion } = store.metadata;
  const body = { metadata: { resourceVersion, finalizers } };
  return client.patch(BookStore, keyOf(store), { type: 'merge', body });
}
