import type { AnyInformer, TrackedRequest, WriterOf } from '../cache/informer.ts';
import { isAlreadyExists, isConflict, isNotFound, isUidMismatch } from '../client/api-error.ts';
import type { Client, ClientRequest, ClientTrace } from '../client/client.ts';
import { NoResponseError } from '../client/no-response-error.ts';
import type { Kind } from '../kind/kind.ts';
import type { KubeObject, ObjectKey } from '../kind/object.ts';
import { isOnlySent, type Modified } from './sent-fields.ts';

/** Options of {@link ReconcileRequests}. */
export interface ReconcileRequestsOptions {
  readonly key: string;
  /** Identifies the controller. */
  readonly controller: object;
  /** The informers of this version of a kind: one for each view and selection. */
  readonly informersOf: (kind: Kind) => readonly AnyInformer[];
  /** Called when a write changed nothing but the fields that it sent. */
  readonly wrote: (delta: Modified, body: object) => void;
  /** Enqueues the key, because another client's change may have enqueued no key. */
  readonly enqueue: () => void;
  readonly signal: AbortSignal;
  readonly trace: ClientTrace | undefined;
}

/**
 * The requests of one reconcile. The informers' stores show the object of each response before the reconcile continues.
 *
 * **Guarantees**
 * - After a write or a `get`, the store shows the object of the response or a newer version. An object that a response
 *   shows to be gone is gone from the store.
 * - Every handler receives what a response changes in the store, with one exception. The key of this reconcile is
 *   skipped for an object that the reconcile has created, and for a change of nothing but the fields that it has sent.
 *   So every change of another client is followed by a reconcile that sees it, even if a response shows it first.
 * - The object is read after a Conflict, an AlreadyExists, a uid that another object has, or an update without a
 *   response: the cache may be stale, or its watch may have died silently. An apply without a uid is an exception:
 *   after its Conflict the Applier itself reads the object, unless the store has it by now.
 * - The key is reconciled again if another client's change may have enqueued no key, for example because a list has
 *   hidden it.
 *
 * **Assumptions**
 * - If a kind has `metadata.generation` and a `transform` drops the spec, the generation changes with the spec.
 *
 * **Caveats**
 * - The event of a write may arrive before its response. The key is skipped anyway while the request is in flight. If a
 *   list shows the write first, or the request fails, the key is reconciled once more. The same is true for an apply
 *   outside the Applier that creates an object: the response does not say which client created it.
 * - The store does not show dry runs, the scale subresource, lists, objects whose informer caches another version, and
 *   the deletion of an object that it did not hold. Only the store of a metadata-only kind shows metadata alone.
 */
export class ReconcileRequests {
  readonly client: Client;
  readonly #options: ReconcileRequestsOptions;
  #inFlight = 0;
  #whenSettled: (() => void) | undefined;
  #hasEnded = false;

  constructor(client: Client, options: ReconcileRequestsOptions) {
    this.#options = options;
    const { signal, trace } = options;
    this.client = client.scoped({ signal, trace, hook: (request, send) => this.#request(request, send) });
  }

  /**
   * The reconcile has ended. Calls `callback` once no request is in flight, possibly at once. From now on the client
   * sends nothing. So a key is never dequeued while a request of its last reconcile is in flight.
   */
  end(callback: () => void): void {
    this.#whenSettled = callback;
    this.#settle();
  }

  #settle(): void {
    if (this.#inFlight > 0 || this.#whenSettled === undefined) return;
    this.#hasEnded = true;
    this.#whenSettled();
  }

  async #request<R>(request: ClientRequest, send: () => Promise<R>): Promise<R> {
    if (request.verb === 'deletecollection') {
      throw new TypeError(
        `deleteCollection of ${request.kind.kind} in a reconcile: the cache could not show what it deletes. ` +
          'Delete each object of the store',
      );
    }
    if (this.#hasEnded) {
      throw new Error(
        `${request.verb} of ${request.kind.kind} after the reconcile of ${this.#options.key} has ended: ` +
          'await each request',
      );
    }
    const { key, isDryRun, subresource } = request;
    const isShown = key !== undefined && !isDryRun && subresource !== 'scale';
    /** The versions for which the key was skipped before the response arrived. */
    const skipped: string[] = [];
    const tracked = isShown ? this.#track(request, key, this.#writerOf(request, skipped)) : [];
    this.#inFlight += 1;
    const traced = this.#options.trace?.requested(request, performance.now());
    try {
      const response = await send();
      traced?.responded(undefined);
      for (const each of tracked) each.end();
      // The event was caused by another client, which made the same change just before.
      if (skipped.some((version) => version !== versionOf(response))) this.#options.enqueue();
      for (const each of tracked) this.#responded(each, request, response);
      return response;
    } catch (error) {
      traced?.responded(error);
      for (const each of tracked) each.end();
      if (skipped.length > 0) this.#options.enqueue();
      for (const each of tracked) {
        const uid = uidOfGone(request, error, each.uid);
        if (uid !== undefined) each.hide(uid);
      }
      if (key !== undefined && tracked.length > 0 && showsStaleCache(request, error)) {
        await this.client.get(request.kind, key).catch((readError: unknown) => {
          // The object no longer exists. If a list has hidden its deletion, no event follows.
          if (request.verb === 'create' && isNotFound(readError)) this.#options.enqueue();
        });
      }
      throw error;
    } finally {
      this.#inFlight -= 1;
      this.#settle();
    }
  }

  /** Only informers of metadata can show metadata. */
  #track({ kind, isMetadataOnly }: ClientRequest, key: ObjectKey, writerOf: WriterOf): readonly TrackedRequest[] {
    const informers = this.#options.informersOf(kind);
    const able = isMetadataOnly ? informers.filter((informer) => informer.kind.view?.isMetadataOnly) : informers;
    return able.map((informer) => informer.trackRequest(key, writerOf)).filter((tracked) => tracked !== undefined);
  }

  #writerOf(request: ClientRequest, skipped: string[]): WriterOf {
    const { controller, key, wrote } = this.#options;
    const writer = { controller, key };
    return (delta) => {
      if (!isOnlySent(request, delta)) return undefined;
      const version = delta.object.metadata.resourceVersion;
      // Several informers of a kind may deliver the same event.
      const isKnown = skipped.includes(version);
      skipped.push(version);
      if (isKnown) return writer;
      if (delta.type === 'modified' && request.body !== undefined) wrote(delta, request.body);
      return writer;
    };
  }

  #responded(tracked: TrackedRequest, request: ClientRequest, response: unknown): void {
    const object = response as KubeObject | undefined;
    if (object === undefined || isGone(request, object)) {
      const uid = object?.metadata.uid ?? request.uid ?? tracked.uid;
      if (uid !== undefined) tracked.hide(uid);
      return;
    }
    tracked.show(object);
    if (tracked.isOvertaken(object)) this.#options.enqueue();
  }
}

const versionOf = (response: unknown): string | undefined =>
  (response as KubeObject | undefined)?.metadata?.resourceVersion;

/** The uid of an object that the error shows to be gone: the name belongs to no object, or to another one. */
function uidOfGone(
  { verb, key, uid, subresource, resourceVersion, isDryRun }: ClientRequest,
  error: unknown,
  heldUid: string | undefined,
): string | undefined {
  if (isDryRun || verb === 'create') return undefined;
  // A Conflict may have other causes, and only the message distinguishes this one (k8s.io/apiserver/pkg/storage,
  // Preconditions.Check).
  if (verb === 'delete' && isConflict(error))
    return resourceVersion === undefined && error.status.message?.includes('UID in precondition') ? uid : undefined;
  // NotFound means that there is no object, with two exceptions: the kind may lack the subresource, and a get may ask
  // for an old version.
  const isAboutObject = subresource === undefined && (verb !== 'get' || resourceVersion === undefined);
  return isAboutObject && isNotFound(error) && error.status.details?.name === key?.name ? heldUid : undefined;
}

/**
 * Whether the response shows an object that the request has deleted. For some kinds it is the object's last version. A
 * write that removes the last finalizer of a terminating object returns the object as written, with the resourceVersion
 * of the request (k8s.io/apiserver/pkg/registry/generic/registry/store.go).
 */
export function isGone({ verb, kind, subresource }: ClientRequest, { metadata }: KubeObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0, finalizers = [] } = metadata;
  // A Namespace stays until its `spec.finalizers` are empty, and is deleted by an update of these.
  if (kind.kind === 'Namespace' && kind.group === '') return false;
  if (deletionTimestamp === undefined) return verb === 'delete';
  if (verb === 'get' || subresource !== undefined) return false;
  return deletionGracePeriodSeconds === 0 && finalizers.length === 0;
}

/**
 * Whether the error means that the cache may be stale. A caller that reads the object itself, such as `finalizer`, then
 * reads it a second time. Such errors are rare.
 */
function showsStaleCache({ verb, uid, isDryRun }: ClientRequest, error: unknown): boolean {
  if (isDryRun) return false;
  if (verb === 'create') return isAlreadyExists(error);
  const isUpdate = verb === 'patch' || verb === 'update' || verb === 'apply';
  // The API server may have committed the update. The next reconcile must not compare with the object before it.
  if (error instanceof NoResponseError) return isUpdate && error.wasSent;
  // A delete is not followed by a read, because a controller that deletes may lack the permission to read.
  return isUpdate && !(verb === 'apply' && uid === undefined) && (isConflict(error) || isUidMismatch(error));
}
