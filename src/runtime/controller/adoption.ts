import { type Client, isNotFound } from '../client/index.ts';
import {
  controllerOf,
  controllerReference,
  type Kind,
  type KubeObject,
  keyOf,
  type OwnerReference,
} from '../kind/index.ts';

/** What {@link claim} takes. */
export interface ClaimOptions<Owner extends KubeObject, Child extends KubeObject> {
  /** The reconcile's own. */
  readonly client: Client;
  readonly ownerKind: Kind<Owner>;
  readonly owner: Owner;
  readonly childKind: Kind<Child>;
  /** Of the owner's namespace: those that match, and those that the owner controls. Others are passed over. */
  readonly candidates: Iterable<Child>;
  /** Whether a child belongs to the owner: its selector. */
  readonly matches: (child: Child) => boolean;
}

/** What {@link claim} has come to. */
export interface Claim<Child extends KubeObject> {
  /** The children that match and are the owner's, those just adopted as the API server returned them. */
  readonly claimed: readonly Child[];
  /**
   * Why others could not be adopted or released: of each it was tried. `isConflict` where a child has changed since it
   * was read: it may be the owner's or not, and the next event, or the retry, tells. One that is gone is no error.
   */
  readonly errors: readonly unknown[];
}

/**
 * Makes an owner's children just those that match its selector: orphans that match are adopted (they get its controller
 * reference), children that no longer match are released (they lose it). As kube-controller-manager does
 * (pkg/controller/controller_ref_manager.go).
 *
 * Nothing is taken from another controller. An owner that is being deleted adopts and releases nothing, and a child
 * that is being deleted is not adopted. Before the first adoption the owner is read from the API server: one that is
 * gone or going by now, and in the store alone lives on, must adopt nothing, or the garbage collector would take what
 * it adopts with it. Each write names the uid and the resourceVersion of its child, so that neither another object of
 * its name nor another's owner reference is touched.
 *
 * @throws whatever the client throws when the owner is read.
 */
export async function claim<Owner extends KubeObject, Child extends KubeObject>(
  options: ClaimOptions<Owner, Child>,
): Promise<Claim<Child>> {
  const { owner, candidates, matches } = options;
  const leaving = owner.metadata.deletionTimestamp !== undefined;
  const claimed: Child[] = [];
  const errors: unknown[] = [];
  const tell = (error: unknown): undefined => void errors.push(error);
  let mayAdopt: boolean | undefined;
  // The store they come from may change with each write.
  for (const child of [...candidates]) {
    const controller = controllerOf(child);
    if (controller !== undefined && controller.uid !== owner.metadata.uid) continue;
    if (controller !== undefined && matches(child)) {
      claimed.push(child);
    } else if (controller !== undefined) {
      if (!leaving) await release(options, child).catch(tell);
    } else if (!leaving && isAdoptable(owner, child) && matches(child)) {
      mayAdopt ??= await isAlive(options);
      const adopted = mayAdopt ? await adopt(options, child).catch(tell) : undefined;
      if (adopted !== undefined) claimed.push(adopted);
    }
  }
  return { claimed, errors };
}

/** An owner reference does not cross namespaces. */
const isAdoptable = (owner: KubeObject, child: KubeObject): boolean =>
  child.metadata.deletionTimestamp === undefined &&
  (owner.metadata.namespace === undefined || owner.metadata.namespace === child.metadata.namespace);

async function isAlive<Owner extends KubeObject, Child extends KubeObject>({
  client,
  ownerKind,
  owner,
}: ClaimOptions<Owner, Child>): Promise<boolean> {
  try {
    const { uid, deletionTimestamp } = (await client.getMetadata(ownerKind, keyOf(owner))).metadata;
    return uid === owner.metadata.uid && deletionTimestamp === undefined;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

function adopt<Owner extends KubeObject, Child extends KubeObject>(
  options: ClaimOptions<Owner, Child>,
  child: Child,
): Promise<Child | undefined> {
  const reference = controllerReference(options.ownerKind, options.owner);
  // It may be a reference to this owner already, only not the controller's.
  return setReferences(options, child, [...referencesToOthers(options.owner, child), reference]);
}

async function release<Owner extends KubeObject, Child extends KubeObject>(
  options: ClaimOptions<Owner, Child>,
  child: Child,
): Promise<void> {
  await setReferences(options, child, referencesToOthers(options.owner, child));
}

const referencesToOthers = (owner: KubeObject, child: KubeObject): readonly OwnerReference[] =>
  child.metadata.ownerReferences?.filter(({ uid }) => uid !== owner.metadata.uid) ?? [];

/** Undefined if the child is gone. */
async function setReferences<Owner extends KubeObject, Child extends KubeObject>(
  { client, childKind }: ClaimOptions<Owner, Child>,
  child: Child,
  ownerReferences: readonly OwnerReference[],
): Promise<Child | undefined> {
  const { uid, resourceVersion } = child.metadata;
  try {
    const body = { metadata: { uid, resourceVersion, ownerReferences } };
    return await client.patch(childKind, keyOf(child), { type: 'merge', body });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
