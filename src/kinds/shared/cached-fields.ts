import { controllerOf, type Kind, type KubeObject } from '@echoperator/runtime';
import { cutText, groupOf } from '@echoperator/runtime/client';

type OwnerReference = NonNullable<KubeObject['metadata']['ownerReferences']>[number];

/**
 * Returns the metadata that a controller reads of any object, whoever owns it. The caches keep no more of an object
 * that is not ours: anybody may write a megabyte of labels or owner references.
 *
 * @param labels the labels that are read.
 */
export function identityOf(metadata: KubeObject['metadata'], labels: readonly string[] = []): KubeObject['metadata'] {
  const { name, namespace, uid, resourceVersion, generation, creationTimestamp, deletionTimestamp } = metadata;
  const controller = controllerOf({ metadata });
  const read = labels.flatMap((label) => {
    const value = metadata.labels?.[label];
    return value === undefined ? [] : [[label, value] as const];
  });
  return {
    ...{ name, uid, resourceVersion, creationTimestamp },
    ...(namespace !== undefined && { namespace }),
    ...(generation !== undefined && { generation }),
    ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    ...(read.length > 0 && { labels: Object.fromEntries(read) }),
    ...(controller !== undefined && { ownerReferences: [cutReference(controller)] }),
  };
}

/** The API server limits no member of a reference. No existing object has one that is cut. */
const cutReference = ({ apiVersion, kind, name, uid, ...flags }: OwnerReference): OwnerReference => ({
  ...{ apiVersion: cutText(apiVersion), kind: cutText(kind), name: cutText(name), uid: cutText(uid) },
  ...flags,
});

/**
 * A transform for the informer of children: of an object that none of the `owners` controls, it keeps the identity.
 * There may be very many, and a controller reads only whose they are.
 */
export const keepChildrenOf =
  (...owners: readonly Kind[]) =>
  <T extends KubeObject>(object: T): T => {
    const { kind, apiVersion = '' } = controllerOf(object) ?? {};
    if (owners.some((owner) => kind === owner.kind && groupOf(apiVersion) === owner.group)) return object;
    const identity: KubeObject = { metadata: identityOf(object.metadata) };
    // In the built-in kinds that have owners, every field except the metadata is optional.
    return identity as T;
  };
