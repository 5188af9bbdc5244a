import { BookStore, bookStoreFinalizer } from '../../api/index.ts';
import {
  type Client,
  done,
  finalizer,
  isConflict,
  isControlledBy,
  isNotFound,
  keyOf,
  type Result,
} from '../../runtime/index.ts';
import { PersistentVolumeClaim, StatefulSet } from '../built-in-kinds.ts';
import { isForeign } from './claims.ts';
import { statefulSetKey } from './names.ts';

/**
 * Has a BookStore's data go with it, or stay, as its spec says in the moment of its deletion: an owner reference on a
 * claim would say what it was when somebody last looked. So no claim has one, and while the policy is Delete the BookStore
 * has a finalizer.
 *
 * @param keep what is to be done while it is not being deleted.
 */
export async function withItsData(
  client: Client,
  store: BookStore,
  stores: {
    readonly statefulSet: StatefulSet | undefined;
    readonly claims: readonly PersistentVolumeClaim[];
  },
  keep: (store: BookStore) => Promise<Result>,
): Promise<Result> {
  const deletes = store.spec?.bookDB?.reclaimPolicy === 'Delete';
  const isLeaving = store.metadata.deletionTimestamp !== undefined;
  const isGuarded = store.metadata.finalizers?.includes(bookStoreFinalizer) ?? false;
  if (deletes || (isLeaving && isGuarded)) {
    const options = { client, kind: BookStore, object: store, name: bookStoreFinalizer, apply: keep };
    return finalizer({ ...options, cleanup: () => (deletes ? remove(client, store, stores) : Promise.resolve(done)) });
  }
  if (isLeaving) return done;
  return keep(isGuarded ? await unguarded(client, store) : store);
}

/** First who would make the claims anew, then the claims. The pods go with the StatefulSet, and the claims after them. */
async function remove(
  client: Client,
  store: BookStore,
  {
    statefulSet,
    claims,
  }: { readonly statefulSet: StatefulSet | undefined; readonly claims: readonly PersistentVolumeClaim[] },
): Promise<Result> {
  if (statefulSet !== undefined && isControlledBy(statefulSet, store)) {
    const { uid, deletionTimestamp } = statefulSet.metadata;
    if (deletionTimestamp === undefined) {
      await unlessGone(() => client.delete(StatefulSet, keyOf(statefulSet), { uid }));
    }
    return { type: 'requeueAfter', delayMs: 1000 };
  }
  const { name } = statefulSetKey(store);
  for (const claim of claims.filter((each) => !isForeign(each, name))) {
    const { uid, deletionTimestamp } = claim.metadata;
    if (deletionTimestamp !== undefined) continue;
    await unlessGone(() => client.delete(PersistentVolumeClaim, keyOf(claim), { uid }));
  }
  return done;
}

async function unguarded(client: Client, store: BookStore): Promise<BookStore> {
  const finalizers = store.metadata.finalizers?.filter((name) => name !== bookStoreFinalizer) ?? [];
  const { resourceVersion } = store.metadata;
  const body = { metadata: { resourceVersion, finalizers } };
  return client.patch(BookStore, keyOf(store), { type: 'merge', body });
}

async function unlessGone(act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}
