import { ApiError, isAlreadyExists, isConflict, isForbidden, isNotFound } from '../client/api-error.ts';
import type { Client, ClientRequest, RequestHook } from '../client/client.ts';
import { summarizeError } from '../client/error-summary.ts';
import { GateClosedError } from '../client/gate.ts';
import { isGone } from '../controller/reconcile-requests.ts';
import { type Condition, findCondition } from '../kind/condition.ts';
import { apiVersionOf, type Kind, versionedResource } from '../kind/kind.ts';
import { type KubeObject, keyString, type ObjectKey } from '../kind/object.ts';
import { fieldChanges } from './field-changes.ts';
import type { FieldChange, PlannedAction, PlannedWrite } from './plan.ts';
import type { ShownObjects } from './planned-store.ts';
import { SecretValues } from './secret-values.ts';
import { shownFields } from './shown-fields.ts';

/** The plan of an object ends here: the reconcile can do nothing more that a dry run could follow. */
export class PlanEndError extends GateClosedError {
  override readonly name = 'PlanEndError';
}

/** The reconcile would call an external system, which a plan must not do. */
export class PlannedCallError extends PlanEndError {
  readonly call: string;

  constructor(call: string) {
    super(`a plan does not call external systems: ${call}`);
    this.call = call;
  }
}

/** The API server did not process a request, so nobody knows what follows. Another attempt may succeed. */
export class UnansweredError extends PlanEndError {
  constructor(request: ClientRequest, error: unknown) {
    super(`no answer to ${request.verb} of ${nameOf(request)}: ${summarizeError(error)}`);
  }
}

/** What dry runs have shown of one object. */
interface Written {
  /** `created`: only the dry run has it. `deleted`: only the dry run has deleted it. */
  readonly state: 'created' | 'changed' | 'deleted';
  /** Undefined: the object is gone. */
  readonly object: KubeObject | undefined;
  /** Which parts were written: the subresource, or `''`. */
  readonly parts: ReadonlySet<string>;
}

/** Options of a {@link PlannedReconcile}. */
export interface PlannedReconcileOptions {
  /** Sends only dry runs. Without a scope. */
  readonly client: Client;
  /** Waits until the next request may be sent. */
  readonly throttle: (signal: AbortSignal) => Promise<void>;
  readonly signal: AbortSignal;
  /** Returns the cached object, for a role that may not get it. */
  readonly cached: (kind: Kind, key: ObjectKey) => KubeObject | undefined;
}

/**
 * Follows one reconcile: records its writes, and remembers what their dry runs have shown. Its {@link request} is the
 * hook of the reconcile's client.
 *
 * A dry run stores nothing, so a second write cannot build on the first. Where the API server's response would be
 * about another object than the reconcile expects, the plan ends with a {@link PlanEndError}. There is one exception:
 * the status and the rest of an object are written independently, so each of them may be written once.
 */
export class PlannedReconcile {
  readonly writes: PlannedWrite[] = [];
  /** Of the Secrets that the reconcile has read or written. */
  readonly secrets: SecretValues = new SecretValues();
  readonly #options: PlannedReconcileOptions;
  /** By `versionedResource`, then by `keyString`. */
  readonly #written = new Map<string, Map<string, Written>>();
  /** Why the reconcile may send nothing more. */
  #end: PlanEndError | undefined;
  #isProbing = false;

  constructor(options: PlannedReconcileOptions) {
    this.#options = options;
  }

  /** Why the plan of the object ends early, if it does. */
  get end(): PlanEndError | undefined {
    return this.#end;
  }

  /** Ends the reconcile. */
  get signal(): AbortSignal {
    return this.#options.signal;
  }

  /** Whether the reconcile would delete an object. */
  get deletes(): boolean {
    return this.writes.some(({ action }) => action === 'delete');
  }

  /** What the dry runs have shown of a kind. Undefined: nothing. */
  shown(kind: Kind): ShownObjects | undefined {
    const written = this.#written.get(versionedResource(kind));
    return written && new Map([...written].map(([key, { object }]) => [key, object]));
  }

  /** The reconcile has read an object of a cache. */
  hasRead(kind: Kind, object: KubeObject): void {
    if (isSecret(kind)) this.secrets.add(object);
  }

  /** The reconcile attempted to call an external system. It can send nothing more. */
  attempted(error: PlannedCallError): void {
    if (!this.#isProbing) this.#end ??= error;
  }

  /**
   * Follows another run of the reconcile after its deletions, to find out which objects it would create again. That
   * run sends nothing.
   */
  probe(): void {
    this.#isProbing = true;
    for (const objects of this.#written.values()) {
      for (const [key, written] of objects)
        if (written.state === 'deleted') objects.set(key, { ...written, object: undefined });
    }
  }

  readonly request: RequestHook = async <R>(request: ClientRequest, send: () => Promise<R>): Promise<R> => {
    if (this.#end !== undefined) throw this.#end;
    this.signal.throwIfAborted();
    if (request.verb === 'get' || request.verb === 'list' || request.isDryRun === true)
      return this.#read(request, send);
    const { key } = request;
    if (request.verb === 'deletecollection' || key === undefined)
      throw new TypeError(`${request.verb} of ${request.kind.kind} in a reconcile: delete each object of the store`);
    return this.#write({ ...request, key }, send);
  };

  async #read<R>(request: ClientRequest, send: () => Promise<R>): Promise<R> {
    const { key, kind } = request;
    const known = key && this.#writtenOf(kind, key);
    if (request.verb === 'get' && known !== undefined && request.isMetadataOnly !== true) {
      if (known.object === undefined) throw notFound(request);
      // The caller reads the kind of the object that it wrote.
      return known.object as R;
    }
    await this.#options.throttle(this.#options.signal);
    try {
      const response = await send();
      for (const object of objectsOf(response)) this.hasRead(kind, object);
      return response;
    } catch (error) {
      throw isAnswer(error) || this.signal.aborted ? error : this.#unanswered(request, error);
    }
  }

  async #write<R>(request: WriteRequest, send: () => Promise<R>): Promise<R> {
    const { kind, key, verb, subresource = '' } = request;
    const known = this.#writtenOf(kind, key);
    const isCreation = verb === 'create' || verb === 'apply';
    if (this.#isProbing) {
      if (isCreation && known?.state === 'deleted') this.#markReplaced(kind, key);
      throw new PlanEndError('the plan follows only the writes before a wait');
    }
    if (known?.state === 'deleted') {
      if (!isCreation) throw notFound(request);
      this.#markReplaced(kind, key);
      this.#record(request, 'create', [], 'the fields are unknown: the object exists until it is really deleted');
      throw this.#stop(`it creates ${nameOf(request)} again, which the plan has not really deleted`);
    }
    if (known?.state === 'created') throw this.#unfollowable(request, 'exists only in the dry run');
    if (known?.parts.has(subresource)) throw this.#unfollowable(request, 'was already written in this dry run');
    const before = verb === 'create' ? undefined : await this.#live(request);
    await this.#options.throttle(this.#options.signal);
    const response = await send().catch((error: unknown) => {
      throw this.#failed(request, before, error);
    });
    this.#accepted(request, before, response as KubeObject | undefined);
    return this.#withEarlierParts(request, response);
  }

  /** Records a write whose dry run failed. Returns the error for the reconcile. */
  #failed(request: WriteRequest, before: KubeObject | undefined, error: unknown): unknown {
    if (this.signal.aborted || error instanceof TypeError) return error;
    const isSupported = !isWithoutDryRun(error);
    if (isSupported && isAnswer(error)) {
      this.#record(request, 'refused', [], summarizeError(error));
      return error;
    }
    this.#record(request, actionOf(request, before, undefined), [], 'the fields are unknown');
    return isSupported
      ? this.#unanswered(request, error)
      : this.#stop(`an admission webhook of ${nameOf(request)} has side effects and supports no dry run`);
  }

  #unanswered(request: ClientRequest, error: unknown): PlanEndError {
    this.#end ??= new UnansweredError(request, error);
    return this.#end;
  }

  #accepted(request: WriteRequest, before: KubeObject | undefined, response: KubeObject | undefined): void {
    const { kind, key, verb, subresource = '' } = request;
    for (const object of [before, response]) if (object !== undefined) this.hasRead(kind, object);
    const isDeleted = response === undefined || isGone(request, response);
    const known = this.#writtenOf(kind, key);
    const parts = new Set([...(known?.parts ?? []), subresource]);
    if (verb === 'delete' || isDeleted) {
      this.#show(kind, key, { state: 'deleted', object: isDeleted ? undefined : response, parts });
      this.#record(request, verb === 'delete' ? 'delete' : 'change', fieldsOf(request, before, response));
      return;
    }
    const state = before === undefined ? 'created' : 'changed';
    const fields = fieldsOf(request, before, response);
    this.#record(request, fields?.length === 0 ? 'none' : actionOf(request, before, response), fields);
    this.#show(kind, key, { state, object: response, parts });
  }

  /**
   * The response of a second write lacks what the dry run of the first has changed: takes the part of the other write
   * from its response.
   */
  #withEarlierParts<R>({ kind, key, subresource }: WriteRequest, response: R): R {
    const written = this.#writtenOf(kind, key);
    if (written?.object === undefined || written.parts.size < 2) return response;
    const earlier = this.#earlier.get(`${versionedResource(kind)} ${keyString(key)}`);
    const [status, rest] = subresource === 'status' ? [written.object, earlier] : [earlier, written.object];
    const merged = { ...rest, ...(status && 'status' in status && { status: status.status }) } as KubeObject;
    this.#show(kind, key, { ...written, object: merged });
    return merged as R;
  }

  /** The object of the first write to each object. */
  readonly #earlier = new Map<string, KubeObject>();

  #show(kind: Kind, key: ObjectKey, written: Written): void {
    const resource = versionedResource(kind);
    const id = `${resource} ${keyString(key)}`;
    if (written.object !== undefined && !this.#earlier.has(id)) this.#earlier.set(id, written.object);
    const objects = this.#written.get(resource) ?? new Map<string, Written>();
    this.#written.set(resource, objects.set(keyString(key), written));
  }

  #writtenOf(kind: Kind, key: ObjectKey): Written | undefined {
    return this.#written.get(versionedResource(kind))?.get(keyString(key));
  }

  /** The object before the write. Undefined: there is none. */
  async #live(request: WriteRequest): Promise<KubeObject | undefined> {
    const { client, throttle, signal, cached } = this.#options;
    const { kind, key } = request;
    await throttle(signal);
    try {
      return await client.get(kind, key, { signal });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      if (isForbidden(error)) return cached(kind, key);
      throw isAnswer(error) || signal.aborted ? error : this.#unanswered({ ...request, verb: 'get' }, error);
    }
  }

  #unfollowable(request: WriteRequest, why: string): PlanEndError {
    const action = request.subresource === 'status' ? 'status' : request.verb === 'delete' ? 'delete' : 'change';
    this.#record(request, action, [], `the fields are unknown: the object ${why}`);
    return this.#stop(`it writes ${nameOf(request)}, which ${why}`);
  }

  #stop(why: string): PlanEndError {
    this.#end ??= new PlanEndError(`a dry run cannot follow: ${why}`);
    return this.#end;
  }

  #markReplaced(kind: Kind, key: ObjectKey): void {
    const index = this.writes.findIndex((write) => write.action === 'delete' && isAbout(write, kind, key));
    const write = this.writes[index];
    if (write !== undefined) this.writes[index] = { ...write, action: 'replace' };
  }

  #record(request: WriteRequest, action: PlannedAction, changes: readonly FieldChange[] = [], why?: string): void {
    const { kind, key, verb, subresource } = request;
    const { fields, rest } = shownFields(changes, (value) => this.secrets.isIn(value));
    const note = why ?? (rest > 0 ? `${rest} more fields are too long to show` : undefined);
    this.writes.push({
      action,
      verb,
      apiVersion: apiVersionOf(kind),
      kind: kind.kind,
      ...(key.namespace !== undefined && { namespace: key.namespace }),
      name: key.name,
      ...(subresource !== undefined && { subresource }),
      fields,
      ...(note !== undefined && { note }),
    });
  }
}

const isSecret = ({ group, kind }: Kind): boolean => group === '' && kind === 'Secret';

/** The objects of the response to a get or a list. */
function objectsOf(response: unknown): readonly KubeObject[] {
  if (typeof response !== 'object' || response === null) return [];
  return 'items' in response ? (response.items as readonly KubeObject[]) : [response as KubeObject];
}

type WriteRequest = ClientRequest & { readonly key: ObjectKey };

const nameOf = ({ kind, key }: ClientRequest): string =>
  key === undefined ? kind.plural : `${kind.kind} ${keyString(key)}`;

const isAbout = (write: PlannedWrite, kind: Kind, { namespace, name }: ObjectKey): boolean =>
  write.kind === kind.kind &&
  write.apiVersion === apiVersionOf(kind) &&
  write.name === name &&
  write.namespace === namespace;

function fieldsOf(
  { kind, verb }: WriteRequest,
  before: KubeObject | undefined,
  after: KubeObject | undefined,
): readonly FieldChange[] | undefined {
  if (verb === 'delete' || before === undefined || after === undefined) return undefined;
  return fieldChanges(before, after, { hasValues: !isSecret(kind) });
}

function actionOf(
  { verb, subresource }: WriteRequest,
  before: KubeObject | undefined,
  after: KubeObject | undefined,
): PlannedAction {
  if (verb === 'delete') return 'delete';
  if (subresource === 'status') return reasonOf(before) === reasonOf(after) ? 'status' : 'reason';
  return before === undefined ? 'create' : 'change';
}

/** The condition `Ready` of an object. */
export function readyOf(object: KubeObject | undefined): Condition | undefined {
  const { status } = (object ?? {}) as { readonly status?: { readonly conditions?: readonly Condition[] } };
  return findCondition(status?.conditions, 'Ready');
}

const reasonOf = (object: KubeObject | undefined): string | undefined => readyOf(object)?.reason;

/**
 * The API server's response if a webhook declares side effects (k8s.io/apiserver, admission/plugin/webhook). A refusal
 * may quote a text like that from an object.
 */
const isWithoutDryRun = (error: unknown): boolean =>
  error instanceof ApiError &&
  error.code === 400 &&
  /^admission webhook "[^"]*" does not support dry run$/.test(error.status.message ?? '');

/**
 * Whether the API server has decided about a request. A server that is overloaded, that fails or that cannot call a
 * webhook has not: the same request may succeed in the upgrade.
 */
const isAnswer = (error: unknown): error is ApiError =>
  error instanceof ApiError && error.code !== 429 && error.code < 500;

/** Whether the cache was behind, so that the reconcile should run again. */
export const isStaleCache = (error: unknown): boolean => isConflict(error) || isAlreadyExists(error);

function notFound({ verb, kind, key }: ClientRequest): ApiError {
  const message = `${kind.plural} "${key?.name}" not found`;
  const details = { name: key?.name ?? '', group: kind.group, kind: kind.plural };
  return new ApiError(`${verb} ${kind.plural}`, 404, { code: 404, reason: 'NotFound', message, details });
}
