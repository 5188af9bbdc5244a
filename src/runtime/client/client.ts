import type { Kind, KubeObject, Manifest, ObjectKey } from '../kind/index.ts';

/** Which objects a list or a watch is about. */
export interface Selection {
  /** Absent: every namespace. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** One page of a list. */
export interface List<T extends KubeObject> {
  readonly items: readonly T[];
  readonly metadata: {
    readonly resourceVersion: string;
    /** Set when there are more: pass it to get the next page. */
    readonly continue?: string;
    readonly remainingItemCount?: number;
  };
}

/** What every request takes: `signal` ends it, and it rejects with the signal's reason. */
export interface RequestOptions {
  readonly signal?: AbortSignal;
}

/** How old what is read may be. */
export interface GetOptions extends RequestOptions {
  /**
   * Absent: the newest, read through to etcd. `0`: whatever the API server has in its cache, cheaper and perhaps old.
   * Any other: not older than this.
   */
  readonly resourceVersion?: string;
}

/** What a page of a list is to hold, and how old it may be. */
export interface ListOptions extends Selection, RequestOptions {
  /** Items a page at the most. */
  readonly limit?: number;
  readonly continue?: string;
  /** As in {@link GetOptions.resourceVersion}; not together with {@link ListOptions.continue}. */
  readonly resourceVersion?: string;
  /** What {@link ListOptions.resourceVersion} means: just that state, or that one or a later one. */
  readonly resourceVersionMatch?: 'Exact' | 'NotOlderThan';
}

/** What a watch is to tell, from when on, and for how long. */
export interface WatchOptions extends Selection {
  /** Deliver what happened after this. Absent: first what there is, as ADDED events, then what happens. */
  readonly resourceVersion?: string;
  /**
   * Begin with an ADDED event for each object that there is, as of `resourceVersion` or later, then a bookmark with the
   * annotation `k8s.io/initial-events-end`, then what happens: a list in a stream (KEP-3157).
   */
  readonly sendInitialEvents?: boolean;
  /** Goes with `sendInitialEvents`. */
  readonly resourceVersionMatch?: 'NotOlderThan';
  /** After so many seconds the server ends the watch; 15 s later it is given up. */
  readonly timeoutSeconds: number;
  readonly signal: AbortSignal;
}

/** One line of a watch. A bookmark's object has a resourceVersion, at times an annotation, and nothing else. */
export type WatchEvent<T extends KubeObject> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  | { readonly type: 'BOOKMARK'; readonly object: Pick<KubeObject, 'metadata'> };

/** Of an object just its metadata: the API server leaves out the rest (PartialObjectMetadata). */
export type PartialObjectMetadata = KubeObject;

/** A part of an object with a URL of its own: what is written there touches no other part. */
export type Subresource = 'status' | 'scale';

/** Which part of the object is written. */
export interface SubresourceOptions extends RequestOptions {
  /** Absent: the object but for its subresources. */
  readonly subresource?: Subresource;
}

/** How an apply deals with the fields of others, and under which conditions it may happen. */
export interface ApplyOptions extends RequestOptions {
  /** Take over fields that another field manager owns. Default: a Conflict says so instead. */
  readonly force?: boolean;
  /**
   * Under this name instead of the client's. So a controller gives up a field without unsetting it: a field that an
   * apply no longer has goes, unless another field manager has it too.
   */
  readonly fieldManager?: string;
  /** Only on the object that has this uid: a Conflict if it is gone, `isOtherUid` if another has its name. Creates nothing. */
  readonly uid?: string;
  /** Only on the object as of this version: a Conflict if it has changed since. */
  readonly resourceVersion?: string;
  /** The API server does all but store it: the answer is what would be stored. Default false. */
  readonly dryRun?: boolean;
}

/** How what is created is looked at. */
export interface CreateOptions extends RequestOptions {
  /** The API server does all but store it: the answer tells whether it would. Default false. */
  readonly dryRun?: boolean;
  /**
   * What becomes of fields that the kind does not have, or that are there twice: `Strict` refuses the object, with a
   * BadRequest for a built-in kind; `Ignore` drops them. Default: the server's, which drops them.
   */
  readonly fieldValidation?: 'Ignore' | 'Strict';
}

/** Conditions under which a delete may happen, and what becomes of the object's dependents. */
export interface DeleteOptions extends RequestOptions {
  /** Only if the object still is the one with this uid, not another of its name; else a Conflict. */
  readonly uid?: string;
  readonly resourceVersion?: string;
  /** Foreground: the object stays, with a deletionTimestamp, until its dependents are gone. Default: Background. */
  readonly propagationPolicy?: 'Foreground' | 'Background' | 'Orphan';
  /** How long the object may take to end; 0: not at all. Default: the kind's own. */
  readonly gracePeriodSeconds?: number;
}

/** Which objects a {@link Client.deleteCollection} deletes, and what becomes of their dependents. */
export interface DeleteCollectionOptions
  extends Selection,
    RequestOptions,
    Pick<DeleteOptions, 'propagationPolicy' | 'gracePeriodSeconds'> {}

/** A change to an object, in one of two forms. */
export type Patch =
  /** RFC 7386: members that are null are removed, lists are replaced. */
  | { readonly type: 'merge'; readonly body: object }
  /** RFC 6902: one operation after the other, or none if one fails (`test` is how to lay down a condition). */
  | { readonly type: 'json'; readonly body: readonly JsonPatchOperation[] };

/** One step of a JSON patch (RFC 6902). Paths are JSON pointers: in a name, `~1` stands for `/` and `~0` for `~`. */
export type JsonPatchOperation =
  | { readonly op: 'add' | 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'move' | 'copy'; readonly from: string; readonly path: string };

/** How many replicas an object wants and has, whatever its kind calls them (autoscaling/v1). */
export interface Scale extends KubeObject {
  readonly spec: { readonly replicas?: number };
  readonly status?: {
    readonly replicas: number;
    /** The label selector of the pods that are counted, as a list takes it. */
    readonly selector?: string;
  };
}

/** The key of an object, and the version of it that a change was computed from: a Conflict if it has changed since. */
export type VersionedKey = ObjectKey & { readonly resourceVersion: string };

/** A request of a client, as a {@link RequestHook} sees it. */
export interface ClientRequest {
  /** As RBAC names it, but for `apply`, which RBAC counts as `patch`. */
  readonly verb: 'get' | 'list' | 'create' | 'update' | 'patch' | 'apply' | 'delete' | 'deletecollection';
  /** Of the object also where the request is about a subresource. */
  readonly kind: Kind;
  /** Absent: the request is about a collection. */
  readonly key?: ObjectKey;
  /** The uid that the object must have. */
  readonly uid?: string | undefined;
  /** The server stores nothing. */
  readonly isDryRun?: boolean | undefined;
}

/** Called in place of each request that is no watch: it calls `send` once, and returns or throws what that does. */
export type RequestHook = <R>(request: ClientRequest, send: () => Promise<R>) => Promise<R>;

/** What {@link Client.scoped} adds to every request. */
export interface RequestScope {
  /** Ends each request, watches too. */
  readonly signal: AbortSignal;
  readonly hook: RequestHook;
}

/**
 * Reads and writes objects of the API server, typed by kind, past every cache. Every method throws {@link ApiError} when
 * the server refuses, and what the connection throws when there is no answer; TypeError, before anything is sent, for a
 * key that does not fit the kind's scope. What an implementation tries again it says itself.
 */
export interface Client {
  get<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, options?: GetOptions): Promise<T>;
  /** One page; {@link List.metadata} tells whether there are more. */
  list<T extends KubeObject>(kind: Kind<T>, options?: ListOptions): Promise<List<T>>;
  /**
   * Events from `resourceVersion` on, until the server ends the watch or the signal is aborted.
   *
   * @throws ApiError also for an ERROR event: `isExpired` tells that the resourceVersion is too old; WatchOverdueError
   *   where the server has not ended it in time.
   */
  watch<T extends KubeObject>(kind: Kind<T>, options: WatchOptions): AsyncIterable<WatchEvent<T>>;
  /**
   * As {@link watch}, with all events that came in one piece as one list: where there are many, a step each would cost
   * more than the event. The first list is empty: the server has accepted the watch. Another empty one
   * says that something came, if only half an event.
   */
  watchBatches<T extends KubeObject>(kind: Kind<T>, options: WatchOptions): AsyncIterable<readonly WatchEvent<T>[]>;

  /** As {@link Client.get}, of the metadata alone. */
  getMetadata(kind: Kind, key: ObjectKey, options?: GetOptions): Promise<PartialObjectMetadata>;
  /** As {@link Client.list}, of the metadata alone: much smaller for kinds that hold much. */
  listMetadata(kind: Kind, options?: ListOptions): Promise<List<PartialObjectMetadata>>;
  /** As {@link Client.watch}, of the metadata alone. */
  watchMetadata(kind: Kind, options: WatchOptions): AsyncIterable<WatchEvent<PartialObjectMetadata>>;

  create<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>, options?: CreateOptions): Promise<T>;
  /**
   * Replaces the object by this one, which was read before and changed.
   *
   * Where the kind has a status subresource, the status in it is ignored, and with `subresource: 'status'` all else is.
   *
   * @throws ApiError `isConflict` when the object has changed since it was read: its resourceVersion is another.
   */
  update<T extends KubeObject>(kind: Kind<T>, object: NoInfer<T>, options?: SubresourceOptions): Promise<T>;
  /** Changes what the patch names and nothing else, whatever the object holds by now, unless the patch tests for it. */
  patch<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, patch: Patch, options?: SubresourceOptions): Promise<T>;
  /** Server-side apply under the client's field manager: creates the object if there is none. */
  apply<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>, options?: ApplyOptions): Promise<T>;

  /** As {@link Client.update}, of the status alone. */
  updateStatus<T extends KubeObject & { readonly status?: unknown }>(
    kind: Kind<T>,
    object: NoInfer<T>,
    options?: RequestOptions,
  ): Promise<T>;
  /**
   * Merges `status` into the status subresource: members that are null are removed, lists are replaced.
   *
   * @param key with the resourceVersion of the object that the status was computed from.
   */
  mergeStatus<T extends KubeObject & { readonly status?: unknown }>(
    kind: Kind<T>,
    key: VersionedKey,
    status: object,
    options?: RequestOptions,
  ): Promise<T>;
  /** As {@link Client.apply}, of the status alone; the object must exist. */
  applyStatus<T extends KubeObject & { readonly status?: unknown }>(
    kind: Kind<T>,
    key: ObjectKey,
    status: object,
    options?: ApplyOptions,
  ): Promise<T>;

  /** The scale subresource: of Deployments, StatefulSets, ReplicaSets and custom kinds that declare one. */
  getScale(kind: Kind, key: ObjectKey, options?: RequestOptions): Promise<Scale>;
  /**
   * Sets how many replicas are wanted.
   *
   * @param key with or without the resourceVersion that the object must still have.
   */
  patchScale(kind: Kind, key: ObjectKey | VersionedKey, replicas: number, options?: RequestOptions): Promise<Scale>;

  /** The object as it is on its way out, or undefined if it was gone at once. */
  delete<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, options?: DeleteOptions): Promise<T | undefined>;
  /**
   * Deletes all objects that are selected, one by one on the server: on an error some may be gone.
   *
   * @returns the objects as they were found, before their deletion; those with finalizers are still there.
   * @throws TypeError for a namespaced kind without a namespace: no server deletes across them.
   */
  deleteCollection<T extends KubeObject>(kind: Kind<T>, options?: DeleteCollectionOptions): Promise<readonly T[]>;

  /** The same client, whose every request ends with a signal and passes a hook. They replace those of an outer scope. */
  scoped(scope: RequestScope): Client;
}
