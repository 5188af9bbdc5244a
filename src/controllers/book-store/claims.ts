import { BookStore } from '../../api/index.ts';
import {
  type ApiError,
  type Client,
  compareQuantities,
  controllerOf,
  type KubeObject,
  keyOf,
  keyString,
} from '../../runtime/index.ts';
import { PersistentVolumeClaim } from '../built-in-kinds.ts';
import { isRefusal } from '../refusal.ts';
import { isCurrent } from '../report-ready.ts';
import { volumeName } from './names.ts';
import type { Settings } from './settings.ts';

/** As the StatefulSet controller writes it: `01` is nobody's. */
const claimName = new RegExp(`^${volumeName}-(.+)-(0|[1-9]\\d{0,8})$`);

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

/** Whether its pod has so much, whatever it asks for. */
export const holds = ({ status }: PersistentVolumeClaim, size: string): boolean =>
  compareQuantities(status?.capacity?.storage ?? '0', size) >= 0;

export const isBound = ({ status }: PersistentVolumeClaim): boolean => status?.phase === 'Bound';

/** Those of pods that there are to be. Others are of pods that were, and may be again. */
export const inUse = (
  claims: readonly PersistentVolumeClaim[],
  { database }: Settings,
): readonly PersistentVolumeClaim[] => claims.filter((claim) => ordinalOf(claim) < database.replicas);

/** What came of making the claims as they are wanted. */
export interface ClaimsOutcome {
  /** As they are now. */
  readonly claims: readonly PersistentVolumeClaim[];
  /** The first that the API server did not let grow, and its words. */
  readonly refusal?: { readonly claim: PersistentVolumeClaim; readonly error: ApiError };
}

/**
 * Makes each claim ask for so much at the least; and at the most, where it holds less: that was asked for by mistake, and
 * its storage tries in vain. They are patched and never applied: they are made by the StatefulSet
 * controller, and each field of theirs is somebody's. Every write names the uid and the version of its claim. One that has
 * no volume yet is not asked to grow: the API server lets none. What a claim of a pod that was scaled away cannot, decides
 * nothing.
 *
 * @throws whatever the client throws, but for the API server's refusal to let a claim grow.
 */
export async function keepClaims(
  client: Client,
  store: BookStore,
  { database }: Settings,
  claims: readonly PersistentVolumeClaim[],
): Promise<ClaimsOutcome> {
  const kept: PersistentVolumeClaim[] = [];
  let refusal: ClaimsOutcome['refusal'];
  for (const claim of claims) {
    try {
      kept.push(await sized(client, store, claim, database.size));
    } catch (error) {
      if (!isRefusal(error)) throw error;
      kept.push(claim);
      if (ordinalOf(claim) < database.replicas) refusal ??= { claim, error };
    }
  }
  return { claims: kept, ...(refusal && { refusal }) };
}

async function sized(
  client: Client,
  store: BookStore,
  claim: PersistentVolumeClaim,
  size: string,
): Promise<PersistentVolumeClaim> {
  const difference = compareQuantities(requestOf(claim), size);
  if (!isBound(claim) || difference === 0) return claim;
  // Less is let in above what it holds (KEP-1790). A BookStore that is of before must not undo what the next has asked for.
  if (difference > 0 && (holds(claim, size) || !(await isCurrent(client, BookStore, store)))) return claim;
  const { uid, resourceVersion } = claim.metadata;
  const body = { metadata: { uid, resourceVersion }, spec: { resources: { requests: { storage: size } } } };
  return client.patch(PersistentVolumeClaim, keyOf(claim), { type: 'merge', body });
}
