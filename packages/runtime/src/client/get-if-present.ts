import type { Kind } from '../kind/kind.ts';
import type { KubeObject, ObjectKey } from '../kind/object.ts';
import { isNotFound } from './api-error.ts';
import type { Client, GetOptions } from './client.ts';

/** Reads an object from the API server. Undefined if it does not exist. */
export async function getIfPresent<T extends KubeObject>(
  client: Pick<Client, 'get'>,
  kind: Kind<T>,
  key: ObjectKey,
  options?: GetOptions,
): Promise<T | undefined> {
  try {
    return await client.get(kind, key, options);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
