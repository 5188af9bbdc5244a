import { type Client, isNotFound, type JsonPatchOperation } from '../client/index.ts';
import { type Kind, type KubeObject, keyOf } from '../kind/index.ts';
import { done, type Result } from './result.ts';

/** What {@link finalizer} takes. */
export interface FinalizerOptions<T extends KubeObject> {
  /** The reconcile's own: what is written by it is read again before the next reconcile. */
  readonly client: Client;
  readonly kind: Kind<T>;
  /** As the store has it. */
  readonly object: T;
  /** A qualified name that nobody else uses: `example.com/database`. */
  readonly name: string;
  /** Brings the object's world to what it asks for. Called with the object as it is with the finalizer. */
  readonly apply: (object: T) => Promise<Result>;
  /** Undoes what `apply` has done. `done`: it is undone. `requeueAfter`: not yet; the object stays until then. */
  readonly cleanup: (object: T) => Promise<Result>;
}

/**
 * Keeps an object from going before what was made for it, where no owner reference reaches, is undone. Call it in each
 * reconcile of the object, and return what it returns.
 *
 * **Expected flow**
 * 1. An object without our finalizer is given it, and in the same call handed to `apply`.
 * 2. One that has it is handed to `apply`, at each reconcile.
 * 3. Somebody asks for its deletion: the API server sets `deletionTimestamp`, and waits. From now on it is handed to
 *    `cleanup`, at each reconcile, until that returns `done`.
 * 4. Our finalizer is taken off. When no other is left, the API server deletes the object.
 *
 * **Guarantees**
 * - `apply` is not called before the API server has stored the finalizer, nor once the deletion is known here.
 * - The object does not go before `cleanup` has returned `done`, however often the process was killed.
 * - Finalizers of others, and their order, stay as they are: a write names the resourceVersion that it was computed from.
 * - An object that is to go and never had our finalizer, or has it no more, is left alone: neither function is called.
 *
 * **Assumptions**
 * - `apply` and `cleanup` are idempotent: each may be called again after it has succeeded. `cleanup` may be called when
 *   `apply` never was, or had failed half-way.
 * - Nobody else adds or removes a finalizer of this name.
 *
 * **Caveats**
 * - An object whose operator is gone stays for ever, and its namespace too: take the finalizers off before the operator.
 * - A finalizer can be removed by hand, and then nothing is cleaned up.
 * - `apply` may still run while somebody asks for the deletion; `cleanup` follows.
 * - A predicate must let the deletion through. `generationChanged` does; beside others it takes `or(…, deletion)`.
 *
 * **Errors**
 * - What `apply` or `cleanup` throws is thrown on; of `cleanup` the finalizer stays.
 * - ApiError `isConflict`: the object has changed since it was read. Throw it on: the next event, or the retry, does it.
 * - An object that is gone when the finalizer is to be added or taken off is no error.
 *
 * The flow is that of kube-rs's `finalizer` (kube::runtime::finalizer), which, other than here, waits for an event
 * between 1 and `apply`.
 */
export async function finalizer<T extends KubeObject>(options: FinalizerOptions<T>): Promise<Result> {
  const { object, name, apply, cleanup } = options;
  const present = object.metadata.finalizers?.includes(name) ?? false;
  if (object.metadata.deletionTimestamp === undefined) {
    const guarded = present
      ? object
      : await write(options.client, options.kind, object, [...(object.metadata.finalizers ?? []), name]);
    return guarded === undefined ? done : apply(guarded);
  }
  if (!present) return done;
  const result = await cleanup(object);
  if (result.type === 'done') await removeFinalizer(options.client, options.kind, object, name);
  return result;
}

/**
 * Takes one finalizer off an object; those of others, and their order, stay as they are. Sends nothing if the object does
 * not have it.
 *
 * @returns the object without the finalizer; undefined if it is gone, which is no error.
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

/** Sets the list of finalizers; undefined if the object is gone. */
async function write<T extends KubeObject>(
  client: Client,
  kind: Kind<T>,
  object: T,
  finalizers: readonly string[],
): Promise<T | undefined> {
  // The version is that of the list that this one was made from, and of the object's uid: a Conflict if either is
  // another by now. A `test` of the list would say the same, but be refused as Invalid. `add` also replaces.
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
