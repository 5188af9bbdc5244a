import { isNotFound } from '../client/api-error.ts';
import type { Client } from '../client/client.ts';
import { controllerOf, controllerReference, type Kind } from '../kind/kind.ts';
import { type KubeObject, keyOf, type OwnerReference } from '../kind/object.ts';

/** Options of {@link adoptAndRelease}. */
export interface AdoptionOptions<Owner extends KubeObject, Child extends KubeObject> {
  /** The client of the reconcile. */
  readonly client: Client;
  readonly ownerKind: Kind<Owner>;
  readonly owner: Owner;
  readonly childKind: Kind<Child>;
  /** Objects in the owner's namespace. Objects that neither match nor belong to the owner are ignored. */
  readonly candidates: Iterable<Child>;
  /** Whether a child matches the owner's selector. */
  readonly matches: (child: Child) => boolean;
  /** The `transform` of the children's informer. Default: adopted children are returned whole. */
  readonly transform?: (child: Child) => Child;
}

/** The result of {@link adoptAndRelease}. */
export interface AdoptionResult<Child extends KubeObject> {
  /** The owner's children that match. Adopted children are as the API server returned them, transformed. */
  readonly children: readonly Child[];
  /**
   * Errors of failed adoptions and releases; every child was attempted. `isConflict` if a child changed since it was
   * read: the next event or the retry decides whether it belongs to the owner. A deleted child is not an error.
   */
  readonly errors: readonly unknown[];
}

/**
 * Adopts orphans that match the owner's selector (adds the controller reference) and releases children that no longer
 * match (removes it), as kube-controller-manager does (pkg/controller/controller_ref_manager.go).
 *
 * Never takes a child from another controller. An owner that is being deleted adopts and releases nothing, and a child
 * that is being deleted is not adopted.
 *
 * Before the first adoption, the owner is read from the API server. If the store were stale and the owner already
 * deleted, the garbage collector would delete the adopted child. Before each write, the child's owner references are
 * read too, so the candidates may lack references other than the controller's. Each write requires the uid and
 * resourceVersion of the candidate. So it changes neither a recreated child nor a reference that another client has
 * set.
 *
 * @throws whatever the client throws when the owner is read.
 */
export async function adoptAndRelease<Owner extends KubeObject, Child extends KubeObject>(
  options: AdoptionOptions<Owner, Child>,
): Promise<AdoptionResult<Child>> {
  const { owner, candidates, matches } = options;
  const isOwnerLeaving = owner.metadata.deletionTimestamp !== undefined;
  const children: Child[] = [];
  const errors: unknown[] = [];
  const collect = (error: unknown): undefined => void errors.push(error);
  let mayAdopt: boolean | undefined;
  // Copy the candidates: each write may change the store that they come from.
  for (const child of [...candidates]) {
    const controller = controllerOf(child);
    if (controller !== undefined && controller.uid !== owner.metadata.uid) continue;
    if (controller !== undefined && matches(child)) {
      children.push(child);
    } else if (controller !== undefined) {
      if (!isOwnerLeaving) await release(options, child).catch(collect);
    } else if (!isOwnerLeaving && isAdoptable(owner, child) && matches(child)) {
      mayAdopt ??= await isAlive(options);
      const adopted = mayAdopt ? await adopt(options, child).catch(collect) : undefined;
      if (adopted !== undefined) children.push(adopted);
    }
  }
  return { children, errors };
}

/** An owner reference must not cross namespaces. */
const isAdoptable = (owner: KubeObject, child: KubeObject): boolean =>
  child.metadata.deletionTimestamp === undefined &&
  (owner.metadata.namespace === undefined || owner.metadata.namespace === child.metadata.namespace);

async function isAlive<Owner extends KubeObject, Child extends KubeObject>({
  client,
  ownerKind,
  owner,
}: AdoptionOptions<Owner, Child>): Promise<boolean> {
  try {
    const { uid, deletionTimestamp } = (await client.getMetadata(ownerKind, keyOf(owner))).metadata;
    return uid === owner.metadata.uid && deletionTimestamp === undefined;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

function adopt<Owner extends KubeObject, Child extends KubeObject>(
  options: AdoptionOptions<Owner, Child>,
  child: Child,
): Promise<Child | undefined> {
  return setReference(options, child, [controllerReference(options.ownerKind, options.owner)]);
}

async function release<Owner extends KubeObject, Child extends KubeObject>(
  options: AdoptionOptions<Owner, Child>,
  child: Child,
): Promise<void> {
  await setReference(options, child, []);
}

/**
 * Replaces all references to the owner by this one or none. The child may also have a reference to the owner that is
 * not a controller reference. Returns undefined if the child no longer exists.
 */
async function setReference<Owner extends KubeObject, Child extends KubeObject>(
  { client, owner, childKind, transform = (whole) => whole }: AdoptionOptions<Owner, Child>,
  child: Child,
  reference: readonly OwnerReference[],
): Promise<Child | undefined> {
  const { uid, resourceVersion } = child.metadata;
  try {
    const { ownerReferences = [] } = (await client.getMetadata(childKind, keyOf(child))).metadata;
    const others = ownerReferences.filter((other) => other.uid !== owner.metadata.uid);
    const body = { metadata: { uid, resourceVersion, ownerReferences: [...others, ...reference] } };
    return transform(await client.patch(childKind, keyOf(child), { type: 'merge', body }));
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
