import { isConflict, isNotFound } from '../client/api-error.ts';
import type { Client, JsonPatchOperation } from '../client/client.ts';
import { getIfPresent } from '../client/get-if-present.ts';
import type { Kind } from '../kind/kind.ts';
import { type KubeObject, keyOf } from '../kind/object.ts';
import { done, type Result } from './result.ts';

/** The result of a `cleanup` that leaves nothing to clean up. */
export interface CleanedUp {
  readonly type: 'cleanedUp';
}

/** Everything is cleaned up: {@link finalizer} may remove the finalizer. */
export const cleanedUp: CleanedUp = { type: 'cleanedUp' };

/** Options of {@link finalizer}. */
export interface FinalizerOptions<T extends KubeObject> {
  /** The client of the reconcile, so that the cache shows its writes. */
  readonly client: Client;
  readonly kind: Kind<T>;
  /** The stored object. */
  readonly object: T;
  /** A qualified name that nobody else uses: `example.com/database`. */
  readonly name: string;
  /** Makes the world match the object. Called with the object that has the finalizer. */
  readonly apply: (object: T) => Promise<Result>;
  /**
   * Undoes what `apply` did. The finalizer is removed only if this returns `cleanedUp`. The finalizer stays after an
   * error and after any other result, such as that of a reported failure. After `done`, the next event calls this
   * again.
   */
  readonly cleanup: (object: T) => Promise<Result | CleanedUp>;
}

/**
 * Keeps an object from being deleted before its external resources, which no owner reference covers, are cleaned up.
 * Call it in each reconcile of the object, and return its result.
 *
 * **Expected flow**
 * 1. An object has no finalizer of ours: the function adds it and calls `apply`.
 * 2. The object has the finalizer: each reconcile calls `apply`.
 * 3. Somebody deletes the object: the API server sets `deletionTimestamp` and keeps the object. Each reconcile calls
 *    `cleanup` until it returns {@link cleanedUp}.
 * 4. The function removes our finalizer. When none is left, the API server deletes the object.
 *
 * **Guarantees**
 * - `apply` is called only after the API server has stored the finalizer, and not after the store shows the deletion.
 * - The object is not deleted before `cleanup` has returned `cleanedUp`, however often the process is killed.
 * - Other finalizers and their order are kept: a write requires the resourceVersion that it was computed from.
 * - For a terminating object without our finalizer, neither function is called.
 *
 * **Assumptions**
 * - `apply` and `cleanup` are idempotent: each may be called again after it has succeeded. `cleanup` may be called when
 *   `apply` never was, or had failed half-way.
 * - Nobody else adds or removes a finalizer of this name.
 *
 * **Caveats**
 * - Without the operator, a deleted object and its namespace remain forever: remove the finalizers before the operator.
 * - If somebody removes the finalizer by hand, nothing is cleaned up.
 * - `apply` may still be running when the deletion is requested; `cleanup` follows.
 * - The predicate must pass the deletion. `predicates.generationChanged` does; combine others as `predicates.or(…,
 *   predicates.deletion)`.
 *
 * **Errors**
 * - Errors of `apply` and `cleanup` are rethrown. If `cleanup` throws, the finalizer stays.
 * - ApiError `isConflict`: the object has changed since it was read. Rethrow it; the next event or the retry succeeds.
 *   If only the status or the metadata has changed during `cleanup`, the finalizer is removed all the same, without a
 *   Conflict.
 * - If the object no longer exists when the finalizer is added or removed, that is not an error.
 *
 * The flow follows kube-rs' `finalizer` (kube::runtime::finalizer), which waits for an event before `apply` in step 1,
 * and removes the finalizer after any result that is not an error.
 */
export async function finalizer<T extends KubeObject>(options: FinalizerOptions<T>): Promise<Result> {
  const { object, name, apply, cleanup } = options;
  const hasFinalizer = object.metadata.finalizers?.includes(name) ?? false;
  if (object.metadata.deletionTimestamp === undefined) {
    const guarded = await addFinalizer(options.client, options.kind, object, name);
    return guarded === undefined ? done : apply(guarded);
  }
  if (!hasFinalizer) return done;
  const result = await cleanup(object);
  if (result.type !== 'cleanedUp') return result;
  await removeAfterCleanup(options.client, options.kind, object, name);
  return done;
}

/**
 * Adds a finalizer to an object. Sends nothing if the object has it.
 *
 * @returns the object with the finalizer; undefined if it no longer exists.
 * @throws as {@link removeFinalizer}.
 */
export async function addFinalizer<T extends KubeObject>(
  client: Client,
  kind: Kind<T>,
  object: T,
  name: string,
): Promise<T | undefined> {
  const { finalizers = [] } = object.metadata;
  return finalizers.includes(name) ? object : write(client, kind, object, [...finalizers, name]);
}

/**
 * Like {@link removeFinalizer}, but a status write during the cleanup, most often its own, does not repeat the cleanup.
 * A change of the spec does.
 */
export async function removeAfterCleanup<T extends KubeObject>(
  client: Client,
  kind: Kind<T>,
  object: T,
  name: string,
): Promise<void> {
  try {
    await removeFinalizer(client, kind, object, name);
  } catch (error) {
    if (!isConflict(error)) throw error;
    const current = await getIfPresent(client, kind, keyOf(object));
    if (current === undefined) return;
    const { uid, generation } = current.metadata;
    const isCleanedUp =
      uid === object.metadata.uid && generation !== undefined && generation === object.metadata.generation;
    if (!isCleanedUp) throw error;
    await removeFinalizer(client, kind, current, name);
  }
}

/**
 * Removes one finalizer from an object and keeps the others in order. Sends nothing if the object does not have it.
 *
 * @returns the object without the finalizer; undefined if it no longer exists.
 * @throws ApiError `isConflict` if the object has changed since it was read; whatever else the client throws.
 */
export async function removeFinalizer<T extends KubeObject>(
  client: Client,
  kind: Kind<T>,
  object: T,
  name: string,
): Promise<T | undefined> {
  const { finalizers = [] } = object.metadata;
  if (!finalizers.includes(name)) return object;
  const others = finalizers.filter((each) => each !== name);
  return write(client, kind, object, others);
}

/** Replaces the list of finalizers. Undefined if the object no longer exists. */
async function write<T extends KubeObject>(
  client: Client,
  kind: Kind<T>,
  object: T,
  finalizers: readonly string[],
): Promise<T | undefined> {
  // The resourceVersion guards against changes of the list and of the uid: either results in a Conflict. A failed
  // `test` operation would result in Invalid instead. `add` also replaces.
  const body: readonly JsonPatchOperation[] = [
    { op: 'add', path: '/metadata/resourceVersion', value: object.metadata.resourceVersion },
    { op: 'add', path: '/metadata/finalizers', value: finalizers },
  ];
  try {
    return await client.patch(kind, keyOf(object), { type: 'json', body });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
