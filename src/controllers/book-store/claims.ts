import { BookStore } from '../../api/index.ts';
import {
  type ApiError,
  apiVersionOf,
  type Client,
  compareQuantities,
  controllerOf,
  type KubeObject,
  keyOf,
  keyString,
  type OwnerReference,
} from '../../runtime/index.ts';
import { PersistentVolumeClaim } from '../built-in-kinds.ts';
import { isRefusal } from '../refusal.ts';
import { volumeName } from './names.ts';
import type { Settings } from './settings.ts';

const claimName = new RegExp(`^${volumeName}-(.+)-(\\d+)$`);

/** The StatefulSet that a claim would be one of by its name, as `namespace/name`. Whoever made it: it will be taken up. */
export function statefulSetOfClaim(claim: PersistentVolumeClaim): string | undefined {
  const [, name] = claimName.exec(claim.metadata.name) ?? [];
  return name === undefined ? undefined : keyString({ ...keyOf(claim), name });
}

/** The number of the pod whose claim it is. */
export const ordinalOf = ({ metadata }: KubeObject): number => Number(claimName.exec(metadata.name)?.[2]);

/** Whether somebody else controls it than the StatefulSet of that name, which may be one that is gone. */
export function isForeign(claim: PersistentVolumeClaim, statefulSetName: string): boolean {
  const controller = controllerOf(claim);
  return controller !== undefined && !(controller.kind === 'StatefulSet' && controller.name === statefulSetName);
}

export const requestOf = ({ spec }: PersistentVolumeClaim): string => spec?.resources?.requests?.storage ?? '0';

export const isBound = ({ status }: PersistentVolumeClaim): boolean => status?.phase === 'Bound';

/**
 * The owners of a claim with its BookStore among them or not: a BookStore whose data goes with it owns the claims, so that
 * the garbage collector takes them, and only with it. Undefined if they are so already.
 */
export function ownersFor(
  store: BookStore,
  { reclaimPolicy }: Settings['database'],
  claim: KubeObject,
): readonly OwnerReference[] | undefined {
  const owners = claim.metadata.ownerReferences ?? [];
  const { name, uid } = store.metadata;
  const has = owners.some((owner) => owner.uid === uid);
  if (has === (reclaimPolicy === 'Delete')) return undefined;
  if (has) return owners.filter((owner) => owner.uid !== uid);
  return [...owners, { apiVersion: apiVersionOf(BookStore), kind: BookStore.kind, name, uid }];
}

/** What came of making the claims as they are wanted. */
export interface ClaimsOutcome {
  /** As they are now. */
  readonly claims: readonly PersistentVolumeClaim[];
  /** The first that the API server did not let grow, and its words. */
  readonly refusal?: { readonly claim: PersistentVolumeClaim; readonly error: ApiError };
}

/**
 * Makes each claim belong to its BookStore or not, and ask for so much at the least. They are patched and never applied:
 * they are made by the StatefulSet controller, and each field of theirs is somebody's. Every write names the uid and the
 * version of its claim. One that has no volume yet is not asked to grow: the API server lets none.
 *
 * @throws whatever the client throws, but for the API server's refusal to let a claim grow.
 */
export async function keepClaims(
  client: Client,
  store: BookStore,
  settings: Settings,
  claims: readonly PersistentVolumeClaim[],
): Promise<ClaimsOutcome> {
  const kept: PersistentVolumeClaim[] = [];
  let refusal: ClaimsOutcome['refusal'];
  for (const claim of claims) {
    const owners = ownersFor(store, settings.database, claim);
    const owned =
      owners === undefined ? claim : await patched(client, claim, { metadata: { ownerReferences: owners } });
    try {
      kept.push(await grown(client, owned, settings.database.size));
    } catch (error) {
      if (!isRefusal(error)) throw error;
      kept.push(owned);
      refusal ??= { claim: owned, error };
    }
  }
  return { claims: kept, ...(refusal && { refusal }) };
}

async function grown(client: Client, claim: PersistentVolumeClaim, size: string): Promise<PersistentVolumeClaim> {
  if (!isBound(claim) || compareQuantities(requestOf(claim), size) >= 0) return claim;
  return patched(client, claim, { spec: { resources: { requests: { storage: size } } } });
}

function patched(
  client: Client,
  claim: PersistentVolumeClaim,
  change: { readonly metadata?: object; readonly spec?: object },
): Promise<PersistentVolumeClaim> {
  const { uid, resourceVersion } = claim.metadata;
  const body = { ...change, metadata: { ...change.metadata, uid, resourceVersion } };
  return client.patch(PersistentVolumeClaim, keyOf(claim), { type: 'merge', body });
}
