import { type Client, cleanedUp, controllerOf, deleteIfPresent, isControlledBy, keyOf } from '@echoperator/runtime';
import { getIfPresent } from '@echoperator/runtime/client';
import type { CleanedUp } from '@echoperator/runtime/controller';
import { PersistentVolumeClaim, Pod, StatefulSet } from '@echoperator/runtime/kinds';
import { claimsOfDatabase, isForeign, listClaims, podNameOf } from './claims.ts';
import type { BookStoreContext } from './context.ts';
import { bookStoreUidLabel, statefulSetKey } from './desired.ts';
import { BookStore } from './kind.ts';
import { type BookStoreOutcome, withLink } from './reasons.ts';
import { firstOf, kubectlCommand } from './status.ts';

/** When to check the deletion of the StatefulSet again if its DELETED event, which enqueues the key, is missed. */
const statefulSetRecheckMs = 60_000;

/** Set by the API server on an object that is deleted with `--cascade=orphan`. */
const orphanFinalizer = 'orphan';

/**
 * Whether the claims go with the BookStore. An owner reference on a claim would fix an earlier policy, so claims have
 * none.
 */
export const deletesClaims = ({ spec }: BookStore): boolean => spec?.bookDB?.reclaimPolicy === 'Delete';

/**
 * Deletes the StatefulSet, which would create the claims again, and then the claims that it created for this BookStore.
 * Keeps every other claim and names it in an Event: its data belongs to somebody else or is older than this BookStore.
 *
 * Decides only by what it reads from the API server, and deletes with a resourceVersion precondition. The cache may
 * still show a policy, an owner or a label that somebody has changed to keep the data. A second deletion may have added
 * the finalizer `orphan`; then the removal of this finalizer is a Conflict with the cached version.
 */
export async function deleteData(
  bookStore: BookStore,
  context: Pick<BookStoreContext, 'client' | 'delete' | 'event'>,
): Promise<CleanedUp | BookStoreOutcome> {
  const { client } = context;
  if (!(await stillDeletesData(client, bookStore))) return cleanedUp;
  const statefulSet = await getIfPresent(client, StatefulSet, statefulSetKey(bookStore));
  if (statefulSet !== undefined && isControlledBy(statefulSet, bookStore)) {
    const { name, resourceVersion } = statefulSet.metadata;
    await context.delete(StatefulSet, statefulSet, { resourceVersion });
    const label = `${bookStoreUidLabel}=${bookStore.metadata.uid}`;
    const what = `waiting for StatefulSet ${name} to be deleted; then the operator deletes its claims with the label ${label}`;
    const message = withLink(what, 'Deleting');
    return { reason: 'Deleting', message, requeueAfterMs: statefulSetRecheckMs };
  }
  const claims = await listClaims(client, bookStore);
  // A StatefulSet that does not belong to this BookStore may use the claims: then they contain its data.
  const created = statefulSet === undefined ? claims.filter((claim) => wasCreatedFor(bookStore, claim)) : [];
  const used = await claimsOfOrphanedPods(created, client);
  const isUsed = new Set(used);
  const deleted = created.filter(({ metadata }) => !isUsed.has(metadata.name));
  const isDeleted = new Set(deleted);
  for (const { metadata } of deleted) {
    const { uid, resourceVersion, deletionTimestamp } = metadata;
    if (deletionTimestamp !== undefined) continue;
    await deleteIfPresent(client, PersistentVolumeClaim, keyOf({ metadata }), { uid, resourceVersion });
  }
  const kept = claimsOfDatabase(claims, bookStore, bookStore.spec.bookDB.replicas ?? 1)
    .filter((claim) => !isDeleted.has(claim) && claim.metadata.deletionTimestamp === undefined)
    .map(({ metadata }) => metadata.name);
  if (kept.length > 0) {
    const orphans =
      used.length === 0 ? '' : `pods that no StatefulSet controls use ${firstOf('claim', used).join(', ')}, or `;
    const why =
      statefulSet === undefined
        ? `${orphans}the operator did not create them for this BookStore (label ${bookStoreUidLabel}=${bookStore.metadata.uid})`
        : `StatefulSet ${statefulSet.metadata.name}, which does not belong to this BookStore, may use them`;
    const command = kubectlCommand(bookStore, `delete pvc ${kept[0]}`);
    const note = `kept claims ${firstOf('claim', kept).join(', ')} despite reclaimPolicy Delete: ${why}. Delete those that you do not need (${command})`;
    context.event({ type: 'Warning', reason: 'DataKept', note });
  }
  return cleanedUp;
}

/**
 * {@link listClaims} checks the name too: somebody may have copied the label to another claim, for example a backup.
 */
const wasCreatedFor = ({ metadata }: BookStore, claim: PersistentVolumeClaim): boolean =>
  claim.metadata.labels?.[bookStoreUidLabel] === metadata.uid && !isForeign(claim);

async function stillDeletesData(client: Client, bookStore: BookStore): Promise<boolean> {
  const { metadata, spec } = await client.get(BookStore, keyOf(bookStore));
  const isOrphaning = metadata.finalizers?.includes(orphanFinalizer) ?? false;
  return metadata.uid === bookStore.metadata.uid && spec?.bookDB?.reclaimPolicy === 'Delete' && !isOrphaning;
}

/**
 * The names of the claims whose pods were orphaned with the StatefulSet (`--cascade=orphan`) and run on. A pod that the
 * garbage collector will delete still has the StatefulSet as its controller.
 */
async function claimsOfOrphanedPods(
  claims: readonly PersistentVolumeClaim[],
  client: Client,
): Promise<readonly string[]> {
  const used: string[] = [];
  for (const claim of claims) {
    const { name } = claim.metadata;
    // One pod a claim, not a list: there may be any number of others in the namespace.
    const pod = await getIfPresent(client, Pod, { ...keyOf(claim), name: podNameOf(claim) });
    if (pod === undefined || controllerOf(pod) !== undefined || pod.metadata.deletionTimestamp !== undefined) continue;
    if (pod.spec?.volumes?.some((volume) => volume.persistentVolumeClaim?.claimName === name)) used.push(name);
  }
  return used;
}
