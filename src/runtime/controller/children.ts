import { type Client, type DeleteOptions, isConflict, isNotFound } from '../client/index.ts';
import { controllerOf, groupOf, type Kind, type KubeObject, type ObjectKey } from '../kind/index.ts';

/**
 * Deletes an object. One that is gone already is no error; with `uid`, neither is another object that has its name by now,
 * which stays.
 *
 * @returns whether the API server accepted the deletion. The object may stay for a while, with a deletionTimestamp.
 * @throws whatever else the client throws: with `resourceVersion`, `isConflict` if the object has changed since.
 */
export async function deleteIfPresent(
  client: Client,
  kind: Kind,
  key: ObjectKey,
  options: DeleteOptions = {},
): Promise<boolean> {
  try {
    await client.delete(kind, key, options);
    return true;
  } catch (error) {
    const isOther = options.uid !== undefined && options.resourceVersion === undefined && isConflict(error);
    if (isNotFound(error) || isOther) return false;
    throw error;
  }
}

/**
 * Whether a child belongs to an earlier object that had the name of `owner`: that was deleted and made again under its name,
 * and the garbage collector has yet to delete the child. To tell a name that is free soon from one that is taken.
 */
export function isPredecessors(child: KubeObject, kind: Kind, owner: KubeObject): boolean {
  const controller = controllerOf(child);
  return (
    controller !== undefined &&
    controller.uid !== owner.metadata.uid &&
    controller.name === owner.metadata.name &&
    controller.kind === kind.kind &&
    groupOf(controller.apiVersion) === kind.group
  );
}
