import { apiVersionOf, type Kind, type KubeObject, type Manifest, type ObjectKey } from '../kind/index.ts';
import { ApiError, type Status } from './api-error.ts';
import { lines } from './lines.ts';
import { collectionPath, creationPath, objectPath } from './resource-path.ts';
import type { HttpRequest, Transport } from './transport.ts';

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

export interface ListOptions extends Selection {
  /** Items a page at the most. */
  readonly limit?: number;
  readonly continue?: string;
  /** Absent: as of now, which the server makes sure of. `0`: whatever the server has in its cache. */
  readonly resourceVersion?: string;
  readonly resourceVersionMatch?: 'NotOlderThan' | 'Exact';
  readonly signal?: AbortSignal;
}

export interface WatchOptions extends Selection {
  /** Deliver what happened after this. Absent, with `sendInitialEvents`: all there is as of now, and what follows. */
  readonly resourceVersion?: string;
  /**
   * Begin with an ADDED event for each object that there is and a bookmark with the annotation
   * `k8s.io/initial-events-end` (KEP-3157). A server that cannot refuses with 422 Invalid or 400.
   */
  readonly sendInitialEvents?: boolean;
  /** Goes with `sendInitialEvents`. */
  readonly resourceVersionMatch?: 'NotOlderThan';
  /** After so many seconds the server ends the watch. */
  readonly timeoutSeconds: number;
  readonly signal: AbortSignal;
}

/** One line of a watch. A bookmark's object has a resourceVersion and nothing else. */
export type WatchEvent<T extends KubeObject> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  | { readonly type: 'BOOKMARK'; readonly object: Pick<KubeObject, 'metadata'> };

/** Conditions under which a delete may happen, and what becomes of the object's dependents. */
export interface DeleteOptions {
  /** Only if the object still is the one with this uid, not another of its name; else a Conflict. */
  readonly uid?: string;
  readonly resourceVersion?: string;
  /** Foreground: the object stays, with a deletionTimestamp, until its dependents are gone. Default: Background. */
  readonly propagationPolicy?: 'Foreground' | 'Background' | 'Orphan';
  readonly signal?: AbortSignal;
}

export interface ApplyOptions {
  /** Take over fields that another field manager owns. Default: a Conflict says so instead. */
  readonly force?: boolean;
  readonly signal?: AbortSignal;
}

export interface RequestOptions {
  readonly signal?: AbortSignal;
}

/**
 * Reads and writes objects of the API server, typed by kind. Every method throws {@link ApiError} when the server
 * refuses, and what the connection throws when there is no answer; nothing is tried again.
 */
export interface Client {
  get<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, options?: RequestOptions): Promise<T>;
  /** One page; {@link List.metadata} tells whether there are more. */
  list<T extends KubeObject>(kind: Kind<T>, options?: ListOptions): Promise<List<T>>;
  /**
   * Events from `resourceVersion` on, until the server ends the watch or the signal is aborted.
   *
   * @throws ApiError also for an ERROR event: `isExpired` tells that the resourceVersion is too old.
   */
  watch<T extends KubeObject>(kind: Kind<T>, options: WatchOptions): AsyncIterable<WatchEvent<T>>;
  /**
   * As {@link watch}, with all events that came in one piece as one list: where there are many, a step each would cost
   * more than the event. An empty list says that something came, if only half an event.
   */
  watchBatches<T extends KubeObject>(kind: Kind<T>, options: WatchOptions): AsyncIterable<readonly WatchEvent<T>[]>;
  create<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>, options?: RequestOptions): Promise<T>;
  /** Server-side apply under the client's field manager. */
  apply<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>, options?: ApplyOptions): Promise<T>;
  /**
   * Merges `status` into the status subresource: members that are null are removed, lists are replaced.
   *
   * @param resourceVersion of the object that the status was computed from: a Conflict if it has changed since.
   */
  mergeStatus<T extends KubeObject & { readonly status?: unknown }>(
    kind: Kind<T>,
    key: ObjectKey & { readonly resourceVersion: string },
    status: object,
    options?: RequestOptions,
  ): Promise<T>;
  /** The object as it is on its way out, or undefined if it was gone at once. */
  delete<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, options?: DeleteOptions): Promise<T | undefined>;
}

/** The {@link Client} over HTTP. */
export class HttpClient implements Client {
  readonly #transport: Transport;
  readonly #fieldManager: string;

  /** @param fieldManager the name under which the server tracks the fields that this client sets. */
  constructor(transport: Transport, fieldManager: string) {
    this.#transport = transport;
    this.#fieldManager = fieldManager;
  }

  async get<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, options: RequestOptions = {}): Promise<T> {
    return this.#object<T>({ method: 'GET', path: objectPath(kind, key), ...options });
  }

  async list<T extends KubeObject>(kind: Kind<T>, options: ListOptions = {}): Promise<List<T>> {
    const { namespace, signal, ...rest } = options;
    const list = await this.#transport.request({
      method: 'GET',
      path: collectionPath(kind, namespace),
      query: queryOf(rest),
      ...(signal && { signal }),
    });
    return list as List<T>;
  }

  async *watch<T extends KubeObject>(kind: Kind<T>, options: WatchOptions): AsyncGenerator<WatchEvent<T>> {
    for await (const batch of this.watchBatches(kind, options)) yield* batch;
  }

  async *watchBatches<T extends KubeObject>(
    kind: Kind<T>,
    options: WatchOptions,
  ): AsyncGenerator<readonly WatchEvent<T>[]> {
    const { namespace, signal, ...rest } = options;
    const path = collectionPath(kind, namespace);
    const body = await this.#transport.stream({
      method: 'GET',
      path,
      query: queryOf({ watch: true, allowWatchBookmarks: true, ...rest }),
      signal,
    });
    for await (const batch of lines(body)) yield* parseWatchEvents<T>(path, batch);
  }

  async create<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>, options: RequestOptions = {}): Promise<T> {
    return this.#object<T>({
      method: 'POST',
      path: creationPath(kind, manifest.metadata),
      query: queryOf({ fieldManager: this.#fieldManager }),
      body: complete(kind, manifest),
      ...options,
    });
  }

  async apply<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>, options: ApplyOptions = {}): Promise<T> {
    return this.#object<T>({
      method: 'PATCH',
      path: objectPath(kind, manifest.metadata),
      query: queryOf({ fieldManager: this.#fieldManager, force: options.force ?? false }),
      contentType: 'application/apply-patch+yaml',
      body: complete(kind, manifest),
      ...(options.signal && { signal: options.signal }),
    });
  }

  async mergeStatus<T extends KubeObject>(
    kind: Kind<T>,
    { resourceVersion, ...key }: ObjectKey & { readonly resourceVersion: string },
    status: object,
    options: RequestOptions = {},
  ): Promise<T> {
    return this.#object<T>({
      method: 'PATCH',
      path: `${objectPath(kind, key)}/status`,
      query: queryOf({ fieldManager: this.#fieldManager }),
      contentType: 'application/merge-patch+json',
      body: { metadata: { resourceVersion }, status },
      ...options,
    });
  }

  async delete<T extends KubeObject>(
    kind: Kind<T>,
    key: ObjectKey,
    { uid, resourceVersion, propagationPolicy = 'Background', signal }: DeleteOptions = {},
  ): Promise<T | undefined> {
    const answer = await this.#transport.request({
      method: 'DELETE',
      path: objectPath(kind, key),
      body: {
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        propagationPolicy,
        preconditions: { ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) },
      },
      ...(signal && { signal }),
    });
    // A finished delete is answered by a Status, one that still waits (for a finalizer, a grace period) by the object.
    return (answer as KubeObject).kind === 'Status' ? undefined : (answer as T);
  }

  async #object<T extends KubeObject>(request: HttpRequest): Promise<T> {
    return (await this.#transport.request(request)) as T;
  }
}

function complete<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>): object {
  return { apiVersion: apiVersionOf(kind), kind: kind.kind, ...manifest };
}

function queryOf(parameters: Readonly<Record<string, string | number | boolean | undefined>>): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) query.set(name, String(value));
  return query;
}

/** The events of these lines as one list; what came before a bad line is yielded before that is thrown. */
function* parseWatchEvents<T extends KubeObject>(
  path: string,
  batch: readonly string[],
): Generator<readonly WatchEvent<T>[]> {
  const events: WatchEvent<T>[] = [];
  try {
    for (const line of batch) events.push(parseWatchEvent(path, line));
  } catch (error) {
    yield events;
    throw error;
  }
  yield events;
}

function parseWatchEvent<T extends KubeObject>(path: string, line: string): WatchEvent<T> {
  const event = parseLine(path, line) as WatchEvent<T> | { readonly type: 'ERROR'; readonly object: Status };
  if (event?.type === 'ERROR') throw new ApiError(`WATCH ${path}`, event.object?.code ?? 500, event.object ?? {});
  if (typeof event?.object?.metadata?.resourceVersion !== 'string') throw notAnEvent(path, line);
  return event;
}

function parseLine(path: string, line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw notAnEvent(path, line);
  }
}

/** Not of the API server, but of something before it: the connection is to be made anew. */
function notAnEvent(path: string, line: string): Error {
  return new SyntaxError(`WATCH ${path}: a line is no event: ${JSON.stringify(line.slice(0, 200))}`);
}
