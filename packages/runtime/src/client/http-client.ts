import { apiVersionOf, type Kind, metadataOnly, resourceName, selectorsOf } from '../kind/kind.ts';
import type { KubeObject, Manifest, ObjectKey } from '../kind/object.ts';
import type { DesiredStatus } from '../kind/status-patch.ts';
import { ApiError, type Status } from './api-error.ts';
import type {
  ApplyOptions,
  Client,
  ClientRequest,
  ClientTrace,
  CreateOptions,
  DeleteCollectionOptions,
  DeleteOptions,
  GetOptions,
  List,
  ListOptions,
  PartialObjectMetadata,
  Patch,
  RequestOptions,
  RequestScope,
  SubresourceOptions,
  VersionedKey,
  WatchEvent,
  WatchOptions,
} from './client.ts';
import type { Gate } from './gate.ts';
import { requireExactIntegers } from './inexact-integer.ts';
import { parseBody } from './parse-body.ts';
import { collectionPath, creationPath, objectPath } from './resource-path.ts';
import { splitLines } from './split-lines.ts';
import type { HttpRequest, Transport } from './transport.ts';

/**
 * Returns the Accept header of a read. `drop` is KEP-5958. A server that does not know a parameter ignores it
 * (k8s.io/apiserver/pkg/endpoints/handlers/negotiation), or takes the second media type, which has no parameters.
 */
function acceptOf({ view }: Kind, response: 'object' | 'list', dropManagedFields = false): string | undefined {
  const dropped = dropManagedFields ? `${json};drop=metadata.managedFields` : json;
  if (view?.isMetadataOnly) {
    const as = response === 'list' ? 'PartialObjectMetadataList' : 'PartialObjectMetadata';
    return `${dropped};as=${as};g=meta.k8s.io;v=v1`;
  }
  return dropManagedFields ? `${dropped},${json}` : undefined;
}

const json = 'application/json';

/** The client ends a watch this long after its timeout: the server should have ended it, so the connection is dead. */
const overdueMs = 15_000;

const mergePatch = 'application/merge-patch+json';
const jsonPatch = 'application/json-patch+json';
/** The server requires this content type; JSON is valid YAML. */
const applyPatch = 'application/apply-patch+yaml';

/** The server did not end a watch in time, so the client ended it. Resume it from the last resourceVersion. */
export class WatchOverdueError extends Error {
  override readonly name = 'WatchOverdueError';

  constructor(path: string, timeoutSeconds: number) {
    super(`WATCH ${path}: the server did not end it within ${overdueMs / 1000} s after its ${timeoutSeconds} s`);
  }
}

/** The {@link Client} over HTTP. Only its {@link Transport} retries requests. */
export class HttpClient implements Client {
  // An own property, not a getter of a private field, so that `Object.create(client)` has it too.
  readonly trace: ClientTrace | undefined;
  readonly #transport: Transport;
  readonly #fieldManager: string;
  readonly #gate: Gate | undefined;
  readonly #scope: RequestScope | undefined;
  /** The query of every write: `fieldManager=…`. */
  readonly #managerQuery: string;

  /**
   * @param fieldManager the name under which the server tracks the fields that this client sets.
   * @param options `gate`: each request passes it immediately before it is sent, a watch before its connection is made.
   *   `scope`: see {@link Client.scoped}.
   */
  constructor(
    transport: Transport,
    fieldManager: string,
    options: { readonly gate?: Gate | undefined; readonly scope?: RequestScope } = {},
  ) {
    this.#transport = transport;
    this.#fieldManager = fieldManager;
    this.#gate = options.gate;
    this.#scope = options.scope;
    this.trace = options.scope?.trace;
    this.#managerQuery = queryOf({ fieldManager });
  }

  scoped(scope: RequestScope): HttpClient {
    return new HttpClient(this.#transport, this.#fieldManager, { gate: this.#gate, scope });
  }

  async get<T extends KubeObject>(kind: Kind<T>, key: ObjectKey, options?: GetOptions): Promise<T> {
    const { resourceVersion } = options ?? {};
    const isMetadataOnly = kind.view?.isMetadataOnly;
    return this.#read<T>({ verb: 'get', kind, key, resourceVersion, isMetadataOnly }, objectPath(kind, key), options);
  }

  async getMetadata(kind: Kind, key: ObjectKey, options?: GetOptions): Promise<PartialObjectMetadata> {
    return this.get(metadataOnly(kind), key, options);
  }

  async list<T extends KubeObject>(kind: Kind<T>, options: ListOptions = {}): Promise<List<T>> {
    return this.#list<T>(kind, options);
  }

  async listMetadata(kind: Kind, options: ListOptions = {}): Promise<List<PartialObjectMetadata>> {
    return this.#list(metadataOnly(kind), options);
  }

  async *watch<T extends KubeObject>(kind: Kind<T>, options: WatchOptions): AsyncGenerator<WatchEvent<T>> {
    for await (const batch of this.watchBatches(kind, options)) yield* batch;
  }

  watchBatches<T extends KubeObject>(kind: Kind<T>, options: WatchOptions): AsyncGenerator<readonly WatchEvent<T>[]> {
    return this.#watch<T>(kind, options);
  }

  async *watchMetadata(kind: Kind, options: WatchOptions): AsyncGenerator<WatchEvent<PartialObjectMetadata>> {
    yield* this.watch(metadataOnly(kind), options);
  }

  async create<T extends KubeObject>(
    kind: Kind<T>,
    manifest: Manifest<T>,
    { dryRun, fieldValidation, signal }: CreateOptions = {},
  ): Promise<T> {
    const path = creationPath(kind, manifest.metadata);
    const extraQuery = queryOf({ dryRun: dryRun ? 'All' : undefined, fieldValidation });
    const query = extraQuery === '' ? this.#managerQuery : `${this.#managerQuery}&${extraQuery}`;
    return this.#write<T>(
      { verb: 'create', kind, key: manifest.metadata, isDryRun: dryRun },
      { method: 'POST', path, query, body: withTypeMeta(kind, manifest), signal },
    );
  }

  async update<T extends KubeObject>(
    kind: Kind<T>,
    object: NoInfer<T>,
    { subresource, signal }: SubresourceOptions = {},
  ): Promise<T> {
    if (kind.view?.isMetadataOnly)
      throw new TypeError(`update of ${resourceName(kind)}: its metadata alone would replace the object. Patch it`);
    const path = objectPath(kind, object.metadata, subresource);
    const body = withTypeMeta(kind, object);
    return this.#write<T>(
      { verb: 'update', kind, key: object.metadata, subresource, body },
      { method: 'PUT', path, body, signal },
    );
  }

  async patch<T extends KubeObject>(
    kind: Kind<T>,
    key: ObjectKey,
    patch: Patch,
    { subresource, signal }: SubresourceOptions = {},
  ): Promise<T> {
    const path = objectPath(kind, key, subresource);
    const contentType = patch.type === 'json' ? jsonPatch : mergePatch;
    return this.#write<T>(
      { verb: 'patch', kind, key, subresource, body: patch.body },
      { method: 'PATCH', path, contentType, body: patch.body, signal },
    );
  }

  async mergeStatus<T extends KubeObject & { readonly status?: unknown }>(
    kind: Kind<T>,
    key: VersionedKey,
    status: DesiredStatus<NonNullable<T['status']>>,
    options?: RequestOptions,
  ): Promise<T> {
    const path = objectPath(kind, key, 'status');
    const body = { metadata: { resourceVersion: key.resourceVersion }, status };
    const signal = options?.signal;
    return this.#write<T>(
      { verb: 'patch', kind, key, subresource: 'status', body },
      { method: 'PATCH', path, contentType: mergePatch, body, signal },
    );
  }

  async apply<T extends KubeObject>(kind: Kind<T>, manifest: Manifest<T>, options?: ApplyOptions): Promise<T> {
    const request: ClientRequest = { verb: 'apply', kind, key: manifest.metadata, uid: options?.uid };
    return this.#apply<T>(request, objectPath(kind, manifest.metadata), withTypeMeta(kind, manifest), options);
  }

  async delete<T extends KubeObject>(
    kind: Kind<T>,
    key: ObjectKey,
    { uid, resourceVersion, propagationPolicy = 'Background', gracePeriodSeconds, signal }: DeleteOptions = {},
  ): Promise<T | undefined> {
    const body = deleteOptions({ propagationPolicy, gracePeriodSeconds, preconditions: { uid, resourceVersion } });
    return this.#request(
      { verb: 'delete', kind, key, uid, resourceVersion },
      { method: 'DELETE', path: objectPath(kind, key), body, signal },
      // The response is a Status if the object is gone, and the object if a finalizer or a grace period delays it.
      (response) => (isStatus(response) ? undefined : (response as T)),
    );
  }

  async deleteCollection<T extends KubeObject>(
    kind: Kind<T>,
    options: DeleteCollectionOptions = {},
  ): Promise<readonly T[]> {
    const { namespace, gracePeriodSeconds, signal } = options;
    const { propagationPolicy = 'Background' } = options;
    if (kind.scope === 'Namespaced' && namespace === undefined) {
      throw new TypeError(`${resourceName(kind)}: deleteCollection needs a namespace`);
    }
    const path = collectionPath(kind, namespace);
    const query = queryOf({ ...selectorsOf(kind, options) });
    const body = deleteOptions({ propagationPolicy, gracePeriodSeconds });
    return this.#request(
      { verb: 'deletecollection', kind },
      { method: 'DELETE', path, query, body, signal },
      // The API server responds with the list of objects, some aggregated API servers with a Status.
      (response) => (isStatus(response) ? [] : ((response as List<T> | EmptyList).items ?? [])),
    );
  }

  #read<T>(request: ClientRequest, path: string, { resourceVersion, signal }: GetOptions = {}): Promise<T> {
    const accept = acceptOf(request.kind, 'object');
    const query = resourceVersion === undefined ? '' : queryOf({ resourceVersion });
    return this.#request(request, { method: 'GET', path, query, accept, signal }, (response) => response as T);
  }

  async #list<T extends KubeObject>(kind: Kind, options: ListOptions): Promise<List<T>> {
    const { namespace, signal, maxBytes, dropManagedFields, ...rest } = options;
    const path = collectionPath(kind, namespace);
    const accept = acceptOf(kind, 'list', dropManagedFields);
    const query = { ...rest, ...selectorsOf(kind, options) };
    return this.#request(
      { verb: 'list', kind, isMetadataOnly: kind.view?.isMetadataOnly },
      { method: 'GET', path, query: queryOf(query), accept, signal, maxBytes },
      (response) => {
        const list = response as List<T> | EmptyList;
        return list.items === null ? { ...list, items: [] } : list;
      },
    );
  }

  async *#watch<T extends KubeObject>(kind: Kind, options: WatchOptions): AsyncGenerator<readonly WatchEvent<T>[]> {
    const { namespace, signal, dropManagedFields, ...others } = options;
    const rest = { ...others, ...selectorsOf(kind, options) };
    const path = collectionPath(kind, namespace);
    const accept = acceptOf(kind, 'object', dropManagedFields);
    // The server requires it with sendInitialEvents, and accepts no other value.
    const match = rest.sendInitialEvents === undefined ? {} : { resourceVersionMatch: 'NotOlderThan' };
    const query = queryOf({ watch: true, allowWatchBookmarks: true, ...match, ...rest });
    const deadline = new AbortController();
    const endOverdueWatch = () => deadline.abort(new WatchOverdueError(path, options.timeoutSeconds));
    const timer = setTimeout(endOverdueWatch, options.timeoutSeconds * 1000 + overdueMs);
    const request: HttpRequest = {
      method: 'GET',
      path,
      query,
      accept,
      signal: AbortSignal.any([signal, deadline.signal]),
    };
    try {
      const body = await this.#transport.stream(this.#addScope(request));
      yield [];
      for await (const batch of splitLines(body)) yield* parseWatchEvents<T>(path, batch);
    } finally {
      clearTimeout(timer);
    }
  }

  #apply<T extends KubeObject>(
    request: ClientRequest,
    path: string,
    configuration: { readonly metadata: object },
    { force = false, fieldManager, uid, resourceVersion, dryRun = false, signal }: ApplyOptions = {},
  ): Promise<T> {
    const managerQuery = fieldManager === undefined ? this.#managerQuery : queryOf({ fieldManager });
    const hasPrecondition = uid !== undefined || resourceVersion !== undefined;
    // JSON omits undefined members.
    const metadata = { ...configuration.metadata, uid, resourceVersion };
    const body = hasPrecondition ? { ...configuration, metadata } : configuration;
    const query = `${managerQuery}&force=${force}${dryRun ? '&dryRun=All' : ''}`;
    const httpRequest: HttpRequest = { method: 'PATCH', path, query, contentType: applyPatch, body, signal };
    return this.#write<T>({ ...request, isDryRun: dryRun, body }, httpRequest);
  }

  async #write<T>(request: ClientRequest, httpRequest: HttpRequest): Promise<T> {
    requireExactIntegers(`${httpRequest.method} ${httpRequest.path}`, httpRequest.body);
    return this.#request(request, { query: this.#managerQuery, ...httpRequest }, (response) => response as T);
  }

  #request<R>(request: ClientRequest, httpRequest: HttpRequest, read: (response: unknown) => R): Promise<R> {
    const send = async (): Promise<R> => read(await this.#transport.request(this.#addScope(httpRequest)));
    return this.#scope === undefined ? send() : this.#scope.hook(request, send);
  }

  /** Adds the gate, and combines the request's signal with the scope's. */
  #addScope(request: HttpRequest): HttpRequest {
    const outer = this.#scope?.signal;
    const { signal = outer } = request;
    const combined =
      outer === undefined || signal === undefined || signal === outer ? signal : AbortSignal.any([outer, signal]);
    return { ...request, signal: combined, gate: this.#gate };
  }
}

/** Go encodes a nil slice as null; the API server sends it for an empty list of metadata. */
type EmptyList = Pick<List<KubeObject>, 'metadata'> & { readonly items: null };

function withTypeMeta<O extends object>(kind: Kind, object: O): O {
  return { apiVersion: apiVersionOf(kind), kind: kind.kind, ...object };
}

function deleteOptions(options: object): object {
  return { apiVersion: 'v1', kind: 'DeleteOptions', ...options };
}

function isStatus(response: unknown): response is Status {
  const { apiVersion = 'v1', kind } = response as Partial<KubeObject>;
  // A custom kind in another group may be called Status too.
  return kind === 'Status' && apiVersion === 'v1';
}

function queryOf(parameters: Readonly<Record<string, string | number | boolean | undefined>>): string {
  let query = '';
  for (const name in parameters) {
    const value = parameters[name];
    if (value !== undefined) query += `${query === '' ? '' : '&'}${name}=${encodeURIComponent(value)}`;
  }
  return query;
}

/**
 * Yields the events of these lines as one list. At an invalid line it yields the events before that line, then throws.
 */
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
    return parseBody(line);
  } catch {
    throw notAnEvent(path, line);
  }
}

/** The API server sends only events; the line comes from a proxy, so the watch needs a new connection. */
function notAnEvent(path: string, line: string): Error {
  return new SyntaxError(`WATCH ${path}: this line is not an event: ${JSON.stringify(line.slice(0, 200))}`);
}
