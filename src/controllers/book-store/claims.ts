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

export const isBound = ({ status }: PersistentVolumeClaim): boolean => status?.phase === 'Bound';

/** What came of making the claims as they are wanted. */
export interface ClaimsOutcome {
  /** As they are now. */
  readonly claims: readonly PersistentVolumeClaim[];
  /** The first that the API server did not let grow, and its words. */
  readonly refusal?: { readonly claim: PersistentVolumeClaim; readonly error: ApiError };
}

/**
 * Makes each claim ask for so much at the least. They are patched and never applied: they are made by the StatefulSet
 * controller, and each field of theirs is somebody's. Every write names the uid and the version of its claim. One that has
 * no volume yet is not asked to grow: the API server lets none. What a claim of a pod that was scaled away cannot, decides
 * nothing.
 *
 * @throws whatever the client throws, but for the API server's refusal to let a claim grow.
 */
export async function keepClaims(
  client: Client,
  { database }: Settings,
  claims: readonly PersistentVolumeClaim[],
): Promise<ClaimsOutcome> {
  const kept: PersistentVolumeClaim[] = [];
  let refusal: ClaimsOutcome['refusal'];
  for (const claim of claims) {
    try {
      kept.push(await grown(client, claim, database.size));
    } catch (error) {
      if (!isRefusal(error)) throw error;
      kept.push(claim);
      if (ordinalOf(claim) < database.replicas) refusal ??= { claim, error };
    }
  }
  return { claims: kept, ...(refusal && { refusal }) };
}

async function grown(client: Client, claim: PersistentVolumeClaim, size: string): Promise<PersistentVolumeClaim> {
  if (!isBound(claim) || compareQuantities(requestOf(claim), size) >= 0) return claim;
  const { uid, resourceVersion } = claim.metadata;
  const body = { metadata: { uid, resourceVersion }, spec: { resources: { requests: { storage: size } } } };
  return client.patch(PersistentVolumeClaim, keyOf(claim), { type: 'merge', body });
}
