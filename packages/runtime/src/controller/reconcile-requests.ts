import type { AnyInformer, TrackedRequest, WriterOf } from '../cache/informer.ts';
import { isAlreadyExists, isConflict, isNotFound, isUidMismatch } from '../client/api-error.ts';
import type { Client, ClientRequest, ClientTrace } from '../client/client.ts';
import { NoResponseError } from '../client/no-response-error.ts';
import type { Kind } from '../kind/kind.ts';
import type { KubeObject } from '../kind/object.ts';
import { isOnlySent, type Modified } from './sent-fields.ts';

/** Options of {@link ReconcileRequests}. */
export interface ReconcileRequestsOptions {
  readonly key: string;
  /** Identifies the controller. */
  readonly controller: object;
  /** The informer of this version of a kind, if there is one. */
  readonly informerOf: (kind: Kind) => AnyInformer | undefined;
  /** Called when a write has changed nothing but the fields that it has sent. */
  readonly wrote: (delta: Modified, body: object) => void;
  /** Enqueues the key, because a change that was not its own may have enqueued nobody. */
  readonly enqueue: () => void;
  readonly signal: AbortSignal;
  readonly trace: ClientTrace | undefined;
}

/**
 * The requests of one reconcile. The informers' stores show the object of each response before the reconcile goes on.
 *
 * **Guarantees**
 * - After a write or a `get` the store shows its object or a newer one. What a response shows to be gone is gone.
 * - Every handler gets what a response changes in the store. Only the key of this reconcile is skipped, and only for an object that it has
 *   created, or a change of nothing but the fields that it has sent. So a change of another client is followed by a reconcile that sees
 *   it, also if it first becomes visible inside a response.
 * - After a Conflict, an AlreadyExists, a uid that another object has, or an update without a response, the object is read: the cache may
 *   be stale, or its watch may have died silently. Not after a Conflict of an apply without a uid: the
 *   Applier itself reads then, unless the store has the object by now.
 * - The key is reconciled again if another client's change may have enqueued nobody, for example because a list has hidden it.
 *
 * **Assumptions**
 * - `metadata.generation` changes with the spec, if the kind has it and a `transform` drops the spec.
 *
 * **Caveats**
 * - The event of a write may overtake its response. Its key is skipped all the same, while the request is in flight. If a list shows the
 *   write first, or the request fails, the key is reconciled once more. So it is after an apply that has created an object, unless the
 *   Applier has sent it: the response does not say who has created the object.
 * - Not shown: dry runs, the scale subresource, lists, metadata alone, objects of which the informer caches another version, and the
 *   deletion of an object that the store did not hold.
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
   * The reconcile has ended. Calls `callback` once no request is in flight, which is now at the earliest. From then on the client sends
   * nothing: a key is never handed out while a request of its last reconcile is in flight.
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
        `deleteCollection of ${request.kind.kind} in a reconcile: the cache could not show what it deletes. Delete each object of the store`,
      );
    }
    if (this.#hasEnded) {
      throw new Error(
        `${request.verb} of ${request.kind.kind} after the reconcile of ${this.#options.key} has ended: await each request`,
      );
    }
    const { key, isDryRun, isMetadataOnly, subresource } = request;
    const isShown = !isDryRun && !isMetadataOnly && subresource !== 'scale';
    const informer = isShown ? this.#options.informerOf(request.kind) : undefined;
    /** The versions for which the key was skipped before the response. */
    const skipped: string[] = [];
    const tracked = key && informer?.trackRequest(key, this.#writerOf(request, skipped));
    this.#inFlight += 1;
    const traced = this.#options.trace?.requested(request, performance.now());
    try {
      const response = await send();
      traced?.answered(undefined);
      tracked?.end();
      // The event was of another client, which did the same just before.
      if (skipped.some((version) => version !== versionOf(response))) this.#options.enqueue();
      if (tracked !== undefined) this.#responded(tracked, request, response);
      return response;
    } catch (error) {
      traced?.answered(error);
      tracked?.end();
      if (skipped.length > 0) this.#options.enqueue();
      const uid = uidOfGone(request, error, tracked?.uid);
      if (uid !== undefined) tracked?.hide(uid);
      if (key !== undefined && tracked !== undefined && showsStaleCache(request, error)) {
        await this.client.get(request.kind, key).catch((readError: unknown) => {
          // It exists no more. If a list has hidden that, no event follows.
          if (request.verb === 'create' && isNotFound(readError)) this.#options.enqueue();
        });
      }
      throw error;
    } finally {
      this.#inFlight -= 1;
      this.#settle();
    }
  }

  #writerOf(request: ClientRequest, skipped: string[]): WriterOf {
    const { controller, key, wrote } = this.#options;
    const writer = { controller, key };
    return (delta) => {
      if (!isOnlySent(request, delta)) return undefined;
      skipped.push(delta.object.metadata.resourceVersion);
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

/** The uid of an object that the error shows to be gone: no object, or another one, has the name. */
function uidOfGone(
  { verb, key, uid, subresource, resourceVersion, isDryRun }: ClientRequest,
  error: unknown,
  heldUid: string | undefined,
): string | undefined {
  if (isDryRun || verb === 'create') return undefined;
  // The message is the only mark: a Conflict may have other causes (k8s.io/apiserver/pkg/storage, Preconditions.Check).
  if (verb === 'delete' && isConflict(error))
    return resourceVersion === undefined && error.status.message?.includes('UID in precondition') ? uid : undefined;
  // A kind that is not served has no object. A kind without the subresource has one, and a get may ask for an old version.
  const isAboutObject = subresource === undefined && (verb !== 'get' || resourceVersion === undefined);
  return isAboutObject && isNotFound(error) && error.status.details?.name === key?.name ? heldUid : undefined;
}

/**
 * Whether the response is of an object that the request has deleted. For some kinds it is the object's last version. A write that removes
 * the last finalizer of an object that is being deleted has it as it was written, with the resourceVersion of the request
 * (k8s.io/apiserver/pkg/registry/generic/registry/store.go).
 */
function isGone({ verb, kind, subresource }: ClientRequest, { metadata }: KubeObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0, finalizers = [] } = metadata;
  // Its `spec.finalizers` keep it, and it ends with an update of these.
  if (kind.kind === 'Namespace' && kind.group === '') return false;
  if (deletionTimestamp === undefined) return verb === 'delete';
  if (verb === 'get' || subresource !== undefined) return false;
  return deletionGracePeriodSeconds === 0 && finalizers.length === 0;
}

/**
 * Whether the error says that the cache may be stale. A caller that also reads the object, such as `finalizer`, reads it a second time:
 * such errors are rare.
 */
function showsStaleCache({ verb, uid, isDryRun }: ClientRequest, error: unknown): boolean {
  if (isDryRun) return false;
  if (verb === 'create') return isAlreadyExists(error);
  const isUpdate = verb === 'patch' || verb === 'update' || verb === 'apply';
  // The API server may have committed it. The next reconcile must not compare with the object as it was before.
  if (error instanceof NoResponseError) return isUpdate && error.wasSent;
  // A delete needs no permission to read.
  return isUpdate && !(verb === 'apply' && uid === undefined) && (isConflict(error) || isUidMismatch(error));
}
