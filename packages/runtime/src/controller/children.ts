import { isConflict, isNotFound } from '../client/api-error.ts';
import type { Client, DeleteOptions } from '../client/client.ts';
import { controllerOf, groupOf, type Kind } from '../kind/kind.ts';
import type { KubeObject, ObjectKey } from '../kind/object.ts';

/**
 * Deletes an object. An object that no longer exists is not an error. With `uid`, another object of the same name is
 * not deleted, which is not an error either.
 *
 * @returns whether the API server accepted the deletion. The object may remain for a while, with a deletionTimestamp.
 * @throws any other error of the client: with `resourceVersion`, `isConflict` if the object has changed since.
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
 * Whether a child belongs to a deleted predecessor of `owner` with the same name, so that the garbage collector will
 * delete the child. Distinguishes a name that will soon be free from one that is taken.
 */
export function belongsToPredecessor(child: KubeObject, kind: Kind, owner: KubeObject): boolean {
  const controller = controllerOf(child);
  return (
    controller !== undefined &&
    controller.uid !== owner.metadata.uid &&
    controller.name === owner.metadata.name &&
    controller.kind === kind.kind &&
    groupOf(controller.apiVersion) === kind.group
  );
}
