import type { Kind } from '../kind/kind.ts';
import type { KubeObject, Manifest, ObjectKey } from '../kind/object.ts';
import type { DesiredStatus } from '../kind/status-patch.ts';

/** Selects the objects of a list, a watch or a deleteCollection. */
export interface Selection {
  /** Default: every namespace. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** One page of a list. */
export interface List<T extends KubeObject> {
  readonly items: readonly T[];
  readonly metadata: {
    readonly resourceVersion: string;
    /** Set if there are more pages; pass it to the next request. */
    readonly continue?: string;
    readonly remainingItemCount?: number;
  };
}

/** Options of every request. */
export interface RequestOptions {
  /** Aborts the request, which then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Options of a get. */
export interface GetOptions extends RequestOptions {
  /**
   * How fresh the result must be. Absent: the latest version (a quorum read). `0`: any version in the API server's
   * cache, which is cheaper and may be stale. Any other value: this version or a later one.
   */
  readonly resourceVersion?: string;
}

/** Options of a list. */
export interface ListOptions extends Selection, RequestOptions {
  /** The maximum number of items in a page. Default: no limit. */
  readonly limit?: number;
  /** The {@link List.metadata} `continue` of the page before. */
  readonly continue?: string;
  /** See {@link GetOptions.resourceVersion}. Cannot be combined with {@link ListOptions.continue}. */
  readonly resourceVersion?: string;
  /** Whether the list must have exactly {@link ListOptions.resourceVersion}, or that version or a later one. */
  readonly resourceVersionMatch?: 'Exact' | 'NotOlderThan';
  /**
   * The most bytes of the response; a larger one is a `ResponseTooLargeError`. Default: no limit. See
   * {@link listPages}.
   */
  readonly maxBytes?: number;
  /** See {@link WatchOptions.dropManagedFields}. */
  readonly dropManagedFields?: boolean;
}

/** Options of a watch. */
export interface WatchOptions extends Selection {
  /**
   * Deliver the changes after this version. Absent: deliver each existing object as an ADDED event, then the changes.
   */
  readonly resourceVersion?: string;
  /**
   * Stream the list (KEP-3157): an ADDED event for each object that exists at `resourceVersion` or later, then a
   * bookmark with the annotation `k8s.io/initial-events-end`, then the changes.
   */
  readonly sendInitialEvents?: boolean;
  /**
   * Ask the API server to omit `metadata.managedFields`, which is often half of an object (KEP-5958). A server that does
   * not know this sends the field anyway. Default false.
   */
  readonly dropManagedFields?: boolean;
  /** The server ends the watch after this time; if it does not, the client ends it 15 s later. */
  readonly timeoutSeconds: number;
  readonly signal: AbortSignal;
}

/** One event of a watch. The object of a bookmark has only a resourceVersion and sometimes an annotation. */
export type WatchEvent<T extends KubeObject> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  | { readonly type: 'BOOKMARK'; readonly object: Pick<KubeObject, 'metadata'> };

/** An object of which the API server sends only the metadata. */
export type PartialObjectMetadata = KubeObject;

/** A part of an object with its own URL. A write to a subresource changes only that part. */
export type Subresource = 'status' | 'scale';

/** Options of an update or a patch. */
export interface SubresourceOptions extends RequestOptions {
  /** The part to write. Default: the object without its subresources. */
  readonly subresource?: Subresource;
}

/** Options of a server-side apply. */
export interface ApplyOptions extends RequestOptions {
  /** Take over fields that another field manager owns. Default false: such a field is a Conflict. */
  readonly force?: boolean;
  /**
   * Replaces the client's field manager for this request. With it a controller can give up a field without removing it:
   * the server removes a field that a manager no longer applies, unless another manager owns the field too.
   */
  readonly fieldManager?: string;
  /**
   * Apply only to the object with this uid and never create one. The server responds with a Conflict if no object has
   * the name, and with an error that `isUidMismatch` recognizes if another object has it.
   */
  readonly uid?: string;
  /** Apply only to this version of the object. The server responds with a Conflict if the object has changed. */
  readonly resourceVersion?: string;
  /** Process the request but store nothing; the result is what the server would store. Default false. */
  readonly dryRun?: boolean;
}

/**
 * A resourceVersion that no object has: the first write to an empty etcd has revision 2. An apply with this version is
 * a Conflict if the name is taken, and creates the object otherwise (apply creates through the registry's Update, which
 * does not check the version of a missing object: k8s.io/apiserver/pkg/registry/generic/registry).
 */
export const mustNotExist = '1';

/** Options of a create. */
export interface CreateOptions extends RequestOptions {
  /** Process the request but store nothing; the result is what the server would store. Default false. */
  readonly dryRun?: boolean;
  /**
   * How the server treats unknown and duplicate fields: `Strict` refuses the object (with BadRequest for a built-in
   * kind), `Ignore` drops them. Default: the server's default, which drops them.
   */
  readonly fieldValidation?: 'Ignore' | 'Strict';
}

/** Options of a delete. */
export interface DeleteOptions extends RequestOptions {
  /** Delete only the object with this uid. The server responds with a Conflict if another object has the name. */
  readonly uid?: string;
  /** Delete only this version of the object. The server responds with a Conflict if the object has changed. */
  readonly resourceVersion?: string;
  /**
   * Foreground: the object keeps existing, with a deletionTimestamp, until its dependents are gone. Default:
   * Background.
   */
  readonly propagationPolicy?: 'Foreground' | 'Background' | 'Orphan';
  /** How long the object may take to stop; 0 deletes it at once. Default: the kind's default. */
  readonly gracePeriodSeconds?: number;
}

/** Options of {@link Client.deleteCollection}. */
export interface DeleteCollectionOptions
  extends Selection,
    RequestOptions,
    Pick<DeleteOptions, 'propagationPolicy' | 'gracePeriodSeconds'> {}

/** A patch of an object. */
export type Patch =
  /** A JSON merge patch (RFC 7386): a null removes the member, a list replaces the list. */
  | { readonly type: 'merge'; readonly body: object }
  /**
   * A JSON patch (RFC 6902): all operations in order, or none if one fails. A `test` operation states a precondition.
   */
  | { readonly type: 'json'; readonly body: readonly JsonPatchOperation[] };

/** One operation of a JSON patch (RFC 6902). Paths are JSON pointers: in a name, `~1` means `/` and `~0` means `~`. */
export type JsonPatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'move' | 'copy'; readonly from: string; readonly path: string };

/**
 * The key of an object and the version that a change is computed from. A write is a Conflict if the object has changed.
 */
export type VersionedKey = ObjectKey & { readonly resourceVersion: string };

/** A client's request, as a {@link RequestHook} sees it. */
export interface ClientRequest {
  /** The RBAC verb, except `apply`, which RBAC treats as `patch`. */
  readonly verb: 'get' | 'list' | 'create' | 'update' | 'patch' | 'apply' | 'delete' | 'deletecollection';
  /** The object's kind, also for a request about a subresource. */
  readonly kind: Kind;
  /** Absent for a request about a collection. */
  readonly key?: ObjectKey;
  /** The uid that the object must have. */
  readonly uid?: string | undefined;
  /** The part of the object that is read or written. Absent: all of it, without its subresources. */
  readonly subresource?: Subresource | undefined;
  /** For a get: how fresh the result must be. For a delete: the version that the object must have. */
  readonly resourceVersion?: string | undefined;
  /** The server stores nothing. */
  readonly isDryRun?: boolean | undefined;
  /** Only the metadata is read. */
  readonly isMetadataOnly?: boolean | undefined;
  /** What an update, a patch or an apply sends. Absent for other verbs. */
  readonly body?: object | undefined;
}

/** Wraps each request except watches. It must call `send` once and return its result or throw its error. */
export type RequestHook = <R>(request: ClientRequest, send: () => Promise<R>) => Promise<R>;

/** Observes one request. */
export interface RequestTrace {
  /** The request has ended. @param error undefined if the server accepted it. */
  responded(error: unknown): void;
}

/** Observes what a reconcile sends with its client. */
export interface ClientTrace {
  /** A request is sent. @param sentAtMs by `performance.now`. */
  requested(request: ClientRequest, sentAtMs: number): RequestTrace;
  /** The applier sent nothing, because the object is as desired. */
  unchanged(kind: Kind, object: ObjectKey): void;
  /** The applier sends an apply next, because these fields differ. */
  differs(fields: readonly { readonly path: string }[]): void;
  /** The reconcile reports this reason of `Ready`. */
  reported(reason: string): void;
}

/** The signal and the hook that {@link Client.scoped} adds to every request. */
export interface RequestScope {
  /** Aborts each request, including watches. */
  readonly signal: AbortSignal;
  readonly hook: RequestHook;
  /** Default: none. */
  readonly trace?: ClientTrace | undefined;
}

/**
 * Reads and writes objects of the API server, typed by kind, without a cache.
 *
 * Every method throws {@link ApiError} if the server responds with an error. Without a response it throws the
 * connection's error (NoResponseError for `createClient`). If the key does not fit the kind's scope, it throws a
 * TypeError before it sends anything. Each implementation documents which requests it retries.
 *
 * JavaScript reads integers beyond 2^53 inexactly. A write with such an integer is not sent: it throws an ApiError that
 * `isRefusal` recognizes and whose cause names the field.
 */
export interface Client {
  get<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, options?: GetOptions): Promise<T>;
  /** Returns one page; {@link List.metadata} shows whether there are more. */
  list<T extends KubeObject>(kind: Kind<T>, options?: ListOptions): Promise<List<T>>;
  /**
   * Yields the events after `resourceVersion` until the server ends the watch or the signal aborts.
   *
   * @throws ApiError for an ERROR event too: `isExpired` means that the resourceVersion is too old. WatchOverdueError
   *   if the server does not end the watch in time.
   */
  watch<T extends KubeObject>(kind: Kind<T>, options: WatchOptions): AsyncIterable<WatchEvent<T>>;
  /**
   * Like {@link watch}, but yields all events of one network chunk as one list, because one iteration per event costs
   * more than the event. The first list is empty and means that the server has accepted the watch. A later empty list
   * means that a part of an event has arrived.
   */
  watchBatches<T extends KubeObject>(kind: Kind<T>, options: WatchOptions): AsyncIterable<readonly WatchEvent<T>[]>;

  /** Like {@link Client.get}, but only the metadata. */
  getMetadata(kind: Kind, key: ObjectKey, options?: GetOptions): Promise<PartialObjectMetadata>;
  /** Like {@link Client.list}, but only the metadata, which is much smaller for large objects. */
  listMetadata(kind: Kind, options?: ListOptions): Promise<List<PartialObjectMetadata>>;
  /** Like {@link Client.watch}, but only the metadata. */
  watchMetadata(kind: Kind, options: WatchOptions): AsyncIterable<WatchEvent<PartialObjectMetadata>>;

  create<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>, options?: CreateOptions): Promise<T>;
  /**
   * Replaces the object with a modified copy of an object read before.
   *
   * If the kind has a status subresource, the server ignores the status, and with `subresource: 'status'` it ignores
   * everything else.
   *
   * @throws ApiError `isConflict` if the object has changed since it was read (its resourceVersion differs).
   */
  update<T extends KubeObject>(kind: Kind<T>, object: NoInfer<T>, options?: SubresourceOptions): Promise<T>;
  /**
   * Changes only the fields in the patch, whatever the current version of the object, unless the patch tests for it.
   */
  patch<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, patch: Patch, options?: SubresourceOptions): Promise<T>;
  /** Server-side apply under the client's field manager. Creates the object if it does not exist. */
  apply<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>, options?: ApplyOptions): Promise<T>;

  /**
   * Merges `status` into the status subresource: a null removes the member, a list replaces the list.
   *
   * @param key includes the resourceVersion of the object that the status is computed from.
   */
  mergeStatus<T extends KubeObject & { readonly status?: unknown }>(
    kind: Kind<T>,
    key: VersionedKey,
    status: DesiredStatus<NonNullable<T['status']>>,
    options?: RequestOptions,
  ): Promise<T>;
  /**
   * Deletes the object, or starts its deletion if a finalizer, a grace period or its dependents delay it.
   *
   * @returns the terminating object, or undefined if the object is gone.
   */
  delete<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, options?: DeleteOptions): Promise<T | undefined>;
  /**
   * Deletes the selected objects. The server deletes them one by one, so on an error some may be gone.
   *
   * @returns the objects as they were before their deletion; those with finalizers still exist.
   * @throws TypeError for a namespaced kind without a namespace: the server cannot delete across namespaces.
   */
  deleteCollection<T extends KubeObject>(kind: Kind<T>, options?: DeleteCollectionOptions): Promise<readonly T[]>;

  /**
   * Observes the reconcile that owns this client, if the operator has an observer. It is a member of the client because
   * the Applier receives only a client.
   */
  readonly trace?: ClientTrace | undefined;

  /**
   * Returns a client that adds this signal and hook to each request, and has this trace. They replace the signal, hook
   * and trace of an outer scope.
   */
  scoped(scope: RequestScope): Client;
}
