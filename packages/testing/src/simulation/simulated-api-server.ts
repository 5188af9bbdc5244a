import { isDeepStrictEqual } from 'node:util';
import {
  type CustomKind,
  customResourceDefinition,
  type Kind,
  type KubeObject,
  keyOf,
  type ObjectKey,
} from '@echoperator/runtime';
import type { Status } from '@echoperator/runtime/client';
import { resourceName } from '@echoperator/runtime/client';
import { apiVersionOf, isCustomKind, isObject, versionedResource } from '@echoperator/runtime/internal';
import * as builtInKinds from '@echoperator/runtime/kinds';
import { builtInStrategy } from './built-in-resources.ts';
import { type Change, ChangeLog } from './change-log.ts';
import { customStrategy } from './custom-resources.ts';
import { fieldError, invalid } from './field-error.ts';
import { applyFields, type FieldWrite, keepTimesIfUnchanged, trackFields } from './field-managers.ts';
import { type ConvertVersion, definitionOf, definitionStrategy, KindVersions } from './kind-versions.ts';
import { withValidMetadata } from './metadata.ts';
import { jsonPatch, mergePatch } from './patches.ts';
import {
  type AdmittedRequest,
  filterOf,
  notServed,
  notSimulated,
  type ResourceRequest,
  readRequest,
  type SimulatedRequest,
} from './resource-request.ts';
import { SimulatedWatch } from './simulated-watch.ts';
import {
  badRequest,
  NotSimulatedError,
  RefusedError,
  type StoredMetadata,
  type StoredObject,
  type Strategy,
} from './strategy.ts';

/** A response of the simulated API server. */
export interface SimulatedResponse {
  readonly code: number;
  readonly body: object;
}

/** The strategies of the kinds that the server serves without a CustomResourceDefinition. */
const builtInStrategies = Object.values(builtInKinds)
  .map(builtInStrategy)
  .filter((strategy) => strategy !== undefined);

/** The kinds for which an update creates a missing object (`AllowCreateOnUpdate`). */
const createsOnUpdate = new Set(['Lease', 'Event']);

/** The selectors of a list or a watch. */
export interface SimulatedSelectors {
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

/** Options of a {@link SimulatedApiServer}. */
export interface SimulatedApiServerOptions {
  /** The custom kinds that the server serves in addition to the built-in kinds. */
  readonly kinds?: readonly CustomKind[];
  /** Serves all versions of the kinds, and the definitions of kinds with several. Default: only the stored versions. */
  readonly convert?: ConvertVersion | undefined;
  /**
   * Simulates admission, authorization and quotas: returns the status with which the server refuses a request, or
   * undefined. The request contains the object that would be stored.
   */
  readonly refuse?: (request: AdmittedRequest) => (Status & { readonly code: number }) | undefined;
}

/**
 * A small API server in memory. It responds to the requests of the runtime's client as kube-apiserver does, without a
 * network and without its own clock. It throws {@link NotSimulatedError} for a request that it does not support;
 * docs/testing.md lists the differences.
 *
 * It has no controllers, RBAC, quotas or admission. Tests simulate these.
 */
export class SimulatedApiServer {
  readonly #versions: KindVersions;
  readonly #log: ChangeLog;
  /** By `group/version/plural`. */
  readonly #strategies: ReadonlyMap<string, Strategy>;
  readonly #refuse: NonNullable<SimulatedApiServerOptions['refuse']>;
  #created = 0;

  constructor({ kinds = [], convert, refuse = () => undefined }: SimulatedApiServerOptions = {}) {
    const versioned = convert === undefined ? [] : kinds.filter(({ versions = [] }) => versions.length > 0);
    this.#versions = new KindVersions(versioned, convert ?? ((object) => object), (name) =>
      this.#log.get(builtInKinds.CustomResourceDefinition, { name }),
    );
    this.#log = new ChangeLog(this.#versions);
    const custom = kinds
      .flatMap((kind) => this.#versions.versionsOf(kind) ?? [kind])
      .map((kind) => customStrategy(kind, customResourceDefinition(kind, { isStoredVersionOnly: true })));
    const definitions = versioned.length === 0 ? [] : [definitionStrategy];
    this.#strategies = new Map(
      [...builtInStrategies, ...custom, ...definitions].map((strategy) => [versionedResource(strategy.kind), strategy]),
    );
    this.#refuse = refuse;
    for (const name of ['default', 'kube-system']) this.#storeNamespace(name);
    const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    for (const kind of versioned)
      this.handle({ method: 'POST', path, headers: {}, body: JSON.stringify(definitionOf(kind)) });
  }

  /** The version of the last write. */
  get revision(): number {
    return this.#log.revision;
  }

  /** The number of changes so far. */
  get changeCount(): number {
    return this.#log.length;
  }

  /** The current objects of a kind, by namespace and name. */
  objects(kind: Kind): readonly StoredObject[] {
    return this.#log.list(kind);
  }

  /** The objects of a kind that a list or watch with this selection contains. Undefined: no limit. */
  select(
    kind: Kind,
    { namespace, ...selectors }: { readonly namespace?: string | undefined } & SimulatedSelectors,
  ): readonly StoredObject[] {
    const query = new URLSearchParams();
    for (const [name, text] of Object.entries(selectors)) if (text !== undefined) query.set(name, text);
    return this.#log.list(kind).filter(filterOf({ kind, namespace, query }));
  }

  /** All changes of a kind, in order. */
  changes(kind: Kind): readonly Change[] {
    return this.#log.changes(kind);
  }

  /** All current objects. */
  all(): Iterable<StoredObject> {
    return this.#log.all();
  }

  /** The kind that an object or an owner reference names. @throws {@link NotSimulatedError} if it is not served */
  kindOf({ apiVersion, kind }: Pick<StoredObject, 'apiVersion' | 'kind'>): Kind {
    const strategy = [...this.#strategies.values()].find(
      (each) => each.kind.kind === kind && apiVersionOf(each.kind) === apiVersion,
    );
    if (strategy === undefined)
      throw new NotSimulatedError(`the simulated API server does not know ${apiVersion} ${kind}`);
    return strategy.kind;
  }

  /** Forgets the changes so far, as a compaction of etcd does: a watch from an earlier version fails with 410. */
  compact(): void {
    this.#log.compact();
  }

  /**
   * Replaces the changes since `since` by the result that another API server produced for the same request. Used to
   * replay that server's requests.
   *
   * @param object the object that the other server stored, with its version. Undefined: it removed the object, if there
   *   was one
   */
  correct(since: number, kind: Kind, key: ObjectKey, object: StoredObject | undefined): void {
    this.#log.rewind(since);
    const current = this.#log.get(kind, key);
    if (object === undefined) {
      if (current !== undefined) this.#log.remove(kind, current, undefined);
    } else if (current?.metadata.resourceVersion !== object.metadata.resourceVersion) {
      this.#log.continueAt(Number(object.metadata.resourceVersion));
      this.#log.put(kind, object, undefined);
    }
  }

  /**
   * Gives the changes since `since` the versions of another API server, as far as it has shown them.
   *
   * @param removals the versions of removals, by uid
   */
  renumber(since: number, removals: ReadonlyMap<string, number>): void {
    this.#log.renumber(since, removals);
  }

  /** Takes over the version of the last write of another API server. */
  advanceTo(revision: number): void {
    this.#log.advanceTo(revision);
  }

  /**
   * Processes a request and returns the response; for a watch, its stream of events.
   *
   * @throws {@link NotSimulatedError} for a request that the server does not support.
   */
  handle(request: SimulatedRequest): SimulatedResponse | SimulatedWatch {
    try {
      const resource = readRequest(
        request,
        (group, version, plural) => this.#strategies.get(`${group}/${version}/${plural}`)?.kind,
      );
      const strategy = this.#strategies.get(versionedResource(resource.kind));
      if (strategy === undefined) throw notSimulated(request, 'this kind');
      if (resource.subresource !== undefined && !strategy.hasStatus) throw notServed();
      if (resource.verb === 'watch') return this.#watch(resource);
      return { code: resource.verb === 'create' ? 201 : 200, ...this.#respond(resource, strategy) };
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      const { status } = error;
      return {
        code: status.code,
        body: { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', ...status },
      };
    }
  }

  #respond(request: ResourceRequest, strategy: Strategy): { readonly code?: number; readonly body: object } {
    const { kind, isMetadataOnly } = request;
    const view = (object: StoredObject): object => (isMetadataOnly ? metadataOf(object) : object);
    switch (request.verb) {
      case 'list':
        return { body: this.#list(request, view) };
      case 'get':
        this.#admit(request, undefined);
        return { body: view(this.#existing(kind, keyOfRequest(request))) };
      case 'create':
        return { body: view(this.#create(request, strategy)) };
      case 'apply':
        return this.#apply(request, strategy);
      case 'update':
        if (createsOnUpdate.has(kind.kind) && this.#log.get(kind, keyOfRequest(request)) === undefined)
          return { code: 201, body: view(this.#create(request, strategy)) };
        return { body: view(this.#change(request, strategy)) };
      case 'patch':
        return { body: view(this.#change(request, strategy)) };
      case 'delete':
        return { body: this.#delete(request, strategy) };
      case 'deletecollection':
        return { body: this.#deleteAll(request, strategy) };
      case 'watch':
        throw new TypeError('a watch has no single response');
    }
  }

  #list(request: ResourceRequest, view: (object: StoredObject) => object): object {
    this.#admit(request, undefined);
    const { kind, query, namespace } = request;
    const filter = filterOf(request);
    const token = query.get('continue');
    const start = token === null ? { revision: this.revision, after: 0 } : (JSON.parse(atob(token)) as PageStart);
    if (token !== null && start.revision <= this.#log.compactedRevision)
      throw expired('The provided continue parameter is too old');
    requireKnownVersion(query);
    if (Number(query.get('resourceVersion') ?? 0) > this.revision)
      throw tooLargeVersion(query.get('resourceVersion'), this.revision);
    // The storage decides whether a page is the last one, and ignores selectors. So the objects that follow may not
    // match.
    const stored = this.#log
      .listAt(kind, start.revision)
      .filter(({ metadata }) => namespace === undefined || metadata.namespace === namespace);
    const limit = Number(query.get('limit')) || Number.POSITIVE_INFINITY;
    const items: object[] = [];
    let position = start.after;
    for (; position < stored.length && items.length < limit; position += 1) {
      const object = stored[position];
      if (object === undefined || !filter(object)) continue;
      items.push(view(isCustomKind(kind) ? object : withoutTypeMeta(object)));
    }
    const isPartial = position < stored.length;
    const metadata = {
      resourceVersion: String(start.revision),
      ...(isPartial && { continue: btoa(JSON.stringify({ revision: start.revision, after: position })) }),
    };
    return request.isMetadataOnly
      ? { ...listMeta, metadata, items: items.length === 0 ? null : items }
      : { kind: `${kind.kind}List`, apiVersion: apiVersionOf(kind), metadata, items };
  }

  #watch(request: ResourceRequest): SimulatedWatch {
    this.#admit(request, undefined);
    const { kind, query, isMetadataOnly } = request;
    const version = query.get('resourceVersion') ?? '';
    const isStreamedList = query.get('sendInitialEvents') === 'true';
    requireKnownVersion(query);
    if (!isStreamedList && (version === '' || version === '0'))
      throw new NotSimulatedError('the simulated API server does not know a watch without a version: list first');
    const from = isStreamedList ? this.revision : Number(version);
    const watch = new SimulatedWatch(this.#log, kind, {
      filter: filterOf(request),
      view: isMetadataOnly ? metadataOf : (object) => object,
      timeoutSeconds: Number(query.get('timeoutSeconds')),
      revision: from,
    });
    if (isStreamedList) watch.startWithList();
    return watch;
  }

  #create(request: ResourceRequest, strategy: Strategy): StoredObject {
    const { kind, namespace } = request;
    const given = this.#body(request, strategy);
    const { generateName, name = generateName && this.#generatedName(generateName) } = given.metadata;
    if (!name) throw invalidName(kind);
    if (request.verb === 'create' && given.metadata.resourceVersion !== undefined)
      throw new RefusedError({ code: 500, message: 'resourceVersion should not be set on objects to be created' });
    const metadata = {
      ...withoutServerFields(given.metadata),
      name,
      ...(namespace !== undefined && { namespace }),
    };
    this.#requireNamespace(request, given.metadata.name ?? generateName ?? name);
    return this.#store(
      request,
      strategy,
      this.#tracked(request, strategy, undefined, { ...given, metadata }),
      undefined,
    );
  }

  /**
   * Refuses a status write whose spec has a value of another type. The API server ignores that spec, but then loses
   * track of all field managers.
   */
  #requireTypedSpec(strategy: Strategy, object: StoredObject, old: StoredObject): void {
    if (object.spec === undefined || isDeepStrictEqual(object.spec, old.spec)) return;
    try {
      strategy.update({ ...old, spec: object.spec }, old, undefined);
    } catch (error) {
      requireTyped(error);
    }
  }

  #apply(request: ResourceRequest, strategy: Strategy): { readonly code: number; readonly body: object } {
    const { kind, query, subresource, namespace } = request;
    const key = keyOfRequest(request);
    const old = this.#log.get(kind, key);
    if (old === undefined && subresource !== undefined) throw notFound(kind, key.name);
    const applied = this.#readBody(request);
    if (old !== undefined) requireVersion(kind, old, applied.metadata.resourceVersion);
    requireDeclared(strategy, applied);
    const force = query.get('force') === 'true';
    const merged = applyFields({ ...this.#fieldWriteOf(request, strategy), live: old, applied, force });
    const decoded = strategy.decode(withoutNullMetadata(merged));
    if (old !== undefined) return { code: 200, body: this.#store(request, strategy, decoded, old) };
    if (applied.metadata.uid !== undefined) {
      const specified = `the provided object specified uid ${applied.metadata.uid}`;
      const why = `uid mismatch: ${specified}, and no existing object was found`;
      throw conflict(kind, key.name, why);
    }
    this.#requireNamespace(request, key.name);
    const metadata = {
      ...withoutServerFields(decoded.metadata),
      managedFields: decoded.metadata.managedFields,
      ...(namespace !== undefined && { namespace }),
    };
    return {
      code: 201,
      body: this.#store(request, strategy, { ...decoded, metadata: metadata as StoredMetadata }, undefined),
    };
  }

  /** An update or a patch. */
  #change(request: ResourceRequest, strategy: Strategy): StoredObject {
    const { kind, verb, body, contentType } = request;
    const old = this.#existing(kind, keyOfRequest(request));
    let changed: StoredObject;
    if (verb === 'update') {
      changed = this.#readBody(request);
      const { uid, resourceVersion } = changed.metadata;
      if (uid !== undefined && uid !== old.metadata.uid)
        throw uidConflict(kind, old.metadata.name, uid, old.metadata.uid);
      if (resourceVersion === undefined && strategy.requiresVersion) throw missingVersion(kind, old.metadata.name);
    } else if (contentType === 'application/merge-patch+json') changed = mergePatch(old, body) as StoredObject;
    else if (contentType === 'application/json-patch+json') changed = jsonPatch(old, body) as StoredObject;
    else throw new NotSimulatedError(`the simulated API server does not know the patch type ${contentType}`);
    requireVersion(kind, old, changed.metadata.resourceVersion);
    const decoded = strategy.decode(withoutEmptyMetadata(changed));
    if (request.subresource === 'status') this.#requireTypedSpec(strategy, decoded, old);
    return this.#store(request, strategy, this.#tracked(request, strategy, old, decoded), old);
  }

  /** Prepares and validates an object, and stores it if it differs from the old one. Returns what is stored. */
  #store(
    request: ResourceRequest,
    strategy: Strategy,
    object: StoredObject,
    old: StoredObject | undefined,
  ): StoredObject {
    const { kind, subresource, query } = request;
    const isDryRun = query.get('dryRun') === 'All';
    if (old === undefined) {
      const metadata = { ...object.metadata, uid: this.#newUid(), creationTimestamp: nowIso() };
      const given = { ...object, metadata };
      const created = withoutEmptyMetadata(withValidMetadata(kind, given, undefined, () => strategy.create(given)));
      this.#admit(request, created);
      const holder = this.#log.get(kind, keyOf(created));
      if (holder !== undefined) throw alreadyExists(kind, holder);
      return isDryRun ? created : this.#log.put(kind, created, request.from);
    }
    const kept = { ...object, metadata: withServerFields(object.metadata, old.metadata) };
    // The causes of a refused status say nothing about the metadata, which the write of a custom kind's status keeps.
    const given = subresource === undefined ? kept : old;
    const updated = withValidMetadata(kind, given, old, () => strategy.update(kept, old, subresource));
    const changed = withoutEmptyMetadata(keepTimesIfUnchanged(old, updated));
    this.#admit(request, changed);
    const isUnchanged = isDeepStrictEqual(changed, old) && !this.#log.isStoredInOldVersion(kind, keyOf(old));
    if (isDryRun || isUnchanged) return changed;
    const { deletionTimestamp, deletionGracePeriodSeconds = 0, finalizers = [] } = changed.metadata;
    const isReleased = deletionTimestamp !== undefined && deletionGracePeriodSeconds === 0 && finalizers.length === 0;
    if (!isReleased) return this.#log.put(kind, changed, request.from);
    // The object is not stored before it is removed. So the response has the previous version, and the event has the
    // previous state.
    this.#log.remove(kind, old, request.from);
    return changed;
  }

  #delete(request: ResourceRequest, strategy: Strategy): object {
    const { kind, body } = request;
    const object = this.#existing(kind, keyOfRequest(request));
    const options = (body ?? {}) as DeleteOptions;
    if (options.dryRun !== undefined)
      throw new NotSimulatedError('the simulated API server does not know a dry run of a deletion');
    requireDeletable(kind, object, options.preconditions ?? {});
    this.#admit(request, undefined);
    return this.#deleteObject(object, options, strategy, request.from);
  }

  #deleteAll(request: ResourceRequest, strategy: Strategy): object {
    const { kind, body } = request;
    this.#admit(request, undefined);
    const objects = this.#log.list(kind).filter(filterOf(request));
    for (const object of objects) this.#deleteObject(object, (body ?? {}) as DeleteOptions, strategy, request.from);
    const metadata = { resourceVersion: String(this.revision) };
    const items = isCustomKind(kind) ? objects : objects.map(withoutTypeMeta);
    return { kind: `${kind.kind}List`, apiVersion: apiVersionOf(kind), metadata, items };
  }

  #deleteObject(object: StoredObject, options: DeleteOptions, strategy: Strategy, from: string | undefined): object {
    const { kind } = strategy;
    if (kind === builtInKinds.Namespace)
      throw new NotSimulatedError('the simulated API server has no controller that empties a deleted namespace');
    const { metadata } = object;
    const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = metadata;
    const { gracePeriodSeconds = Number.POSITIVE_INFINITY } = options;
    const isGraceful = strategy.deletionGraceSeconds?.(object, 0) !== undefined;
    // Another deletion may only shorten the grace period.
    if (isGraceful && deletionGracePeriodSeconds > 0 && gracePeriodSeconds >= deletionGracePeriodSeconds) return object;
    const isOver = deletionTimestamp !== undefined && deletionGracePeriodSeconds === 0;
    const finalizers = finalizersAfter(metadata.finalizers ?? [], options.propagationPolicy);
    const graceSeconds = isOver ? undefined : strategy.deletionGraceSeconds?.(object, options.gracePeriodSeconds);
    const isRemoved = finalizers.length === 0 && (graceSeconds ?? 0) === 0;
    let marked = object;
    // An object of a kind without graceful deletion is removed without being marked.
    if (!isRemoved || graceSeconds !== undefined) {
      const deletion = deletionOf(metadata, graceSeconds ?? 0);
      const next = { ...object, metadata: withFinalizers({ ...metadata, ...deletion }, finalizers) };
      if (!isDeepStrictEqual(next, object)) marked = this.#log.put(kind, next, from);
    }
    if (!isRemoved) return marked;
    const removed = this.#log.remove(kind, marked, from);
    return strategy.returnsDeleted ? removed : success(kind, object);
  }

  #tracked(
    request: ResourceRequest,
    strategy: Strategy,
    old: StoredObject | undefined,
    object: StoredObject,
  ): StoredObject {
    return trackFields({ ...this.#fieldWriteOf(request, strategy), before: old, after: object });
  }

  #fieldWriteOf({ kind, query, subresource }: ResourceRequest, strategy: Strategy): FieldWrite {
    const others = this.#versions.versionsOf(kind)?.filter(({ version }) => version !== kind.version) ?? [];
    return {
      manager: query.get('fieldManager') ?? '',
      apiVersion: apiVersionOf(kind),
      subresource,
      schema: strategy.schema,
      resetFields: strategy.resetFields?.(subresource) ?? {},
      timeIso: nowIso(),
      otherVersions: new Map(
        others.map((other) => [
          apiVersionOf(other),
          {
            schema: this.#strategies.get(versionedResource(other))?.schema ?? strategy.schema,
            convert: (object: StoredObject) => this.#versions.decode(other, object),
          },
        ]),
      ),
    };
  }

  #body(request: ResourceRequest, strategy: Strategy): StoredObject {
    const given = withoutEmptyMetadata(this.#readBody(request));
    const decoded = strategy.decode(given);
    if (request.query.get('fieldValidation') === 'Strict' && droppedMember(decoded, given) !== undefined)
      throw new NotSimulatedError('the simulated API server does not know the message for an unknown field');
    return decoded;
  }

  /** Reads the object in a body. */
  #readBody({ kind, namespace, name, body }: ResourceRequest): StoredObject {
    if (!isObject(body) || (body.metadata !== undefined && !isObject(body.metadata)))
      throw badRequest('the body is not an object');
    if (body.apiVersion !== apiVersionOf(kind) || body.kind !== kind.kind)
      throw badRequest(
        `the object is a ${String(body.kind)} of ${String(body.apiVersion)}, ` +
          `and the path is one of ${apiVersionOf(kind)} ${kind.kind}`,
      );
    const metadata = (body.metadata ?? {}) as unknown as StoredMetadata;
    if (metadata.namespace !== undefined && metadata.namespace !== namespace)
      throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
    if (name !== undefined && metadata.name !== undefined && metadata.name !== name)
      throw badRequest(`the name of the object (${metadata.name}) does not match the name on the URL (${name})`);
    const key = { ...(name !== undefined && { name }), ...(namespace !== undefined && { namespace }) };
    return { ...body, metadata: { ...metadata, ...key } } as StoredObject;
  }

  #existing(kind: Kind, key: ObjectKey): StoredObject {
    const object = this.#log.get(kind, key);
    if (object === undefined) throw notFound(kind, key.name);
    return object;
  }

  #admit(request: ResourceRequest, object: StoredObject | undefined): void {
    const { verb, kind, namespace, name, subresource, from } = request;
    if (from === undefined) return;
    const refusal = this.#refuse({
      verb,
      kind,
      namespace,
      name,
      subresource,
      from,
      object: object as KubeObject | undefined,
    });
    if (refusal !== undefined) throw new RefusedError(refusal);
  }

  #requireNamespace({ kind, namespace }: ResourceRequest, name: string): void {
    if (namespace === undefined || kind.scope === 'Cluster') return;
    const found = this.#log.get(builtInKinds.Namespace, { name: namespace });
    if (found === undefined) throw notFound(builtInKinds.Namespace, namespace);
    if (found.metadata.deletionTimestamp === undefined) return;
    throw terminating(kind, name, namespace);
  }

  #storeNamespace(name: string): void {
    const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
    this.handle({ method: 'POST', path: '/api/v1/namespaces', headers: {}, body: JSON.stringify(body) });
  }

  #newUid(): string {
    this.#created += 1;
    return `00000000-0000-4000-8000-${String(this.#created).padStart(12, '0')}`;
  }

  #generatedName(prefix: string): string {
    return `${prefix}${String(this.#created + 1).padStart(5, '0')}`;
  }
}

/** @throws {@link NotSimulatedError} if the error refuses a value of another type. */
function requireTyped(error: unknown): void {
  const causes = error instanceof RefusedError ? error.status.details?.causes : undefined;
  const wrong = causes?.find(({ reason }) => reason === 'FieldValueTypeInvalid');
  if (wrong !== undefined)
    throw new NotSimulatedError(`the simulated API server does not know ${wrong.field} of another type here`);
}

/** @throws {@link RefusedError} if an applied configuration has an unknown field, or a value of another type. */
function requireDeclared(strategy: Strategy, applied: StoredObject): void {
  const decoded = strategy.decode(applied);
  const field = droppedMember(decoded, applied);
  if (field === undefined) {
    try {
      strategy.create(decoded);
    } catch (error) {
      // The API server reports such a field differently if it is applied.
      requireTyped(error);
    }
    return;
  }
  if (field.includes('['))
    throw new NotSimulatedError(
      `the simulated API server does not know how an unknown field in a list is reported: ${field}`,
    );
  const { apiVersion, kind, metadata } = applied;
  const object = [metadata.namespace, metadata.name].filter(Boolean).join('/');
  const why = `failed to create typed patch object (${object}; ${apiVersion}, Kind=${kind})`;
  throw new RefusedError({ code: 500, message: `${why}: ${field}: field not declared in schema` });
}

interface PageStart {
  readonly revision: number;
  /** How many stored objects the earlier pages have covered. */
  readonly after: number;
}

interface DeleteOptions {
  readonly dryRun?: readonly string[];
  readonly preconditions?: Preconditions;
  readonly propagationPolicy?: string;
  readonly gracePeriodSeconds?: number;
}

interface Preconditions {
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
}

/** The API server's times have whole seconds. */
const nowIso = (): string => `${new Date().toISOString().slice(0, 19)}Z`;

const keyOfRequest = ({ name = '', namespace }: ResourceRequest): ObjectKey =>
  namespace === undefined ? { name } : { name, namespace };

/** The items of a list of a built-in kind have no `apiVersion` and `kind`. */
function withoutTypeMeta({ apiVersion: _, kind: __, ...object }: StoredObject): StoredObject {
  return object as unknown as StoredObject;
}

/** An apply leaves null in place of an object or list whose last member it removed. */
function withoutNullMetadata(object: StoredObject): StoredObject {
  const members = Object.entries(object.metadata).filter(([, value]) => value !== null);
  return { ...object, metadata: Object.fromEntries(members) as unknown as StoredMetadata };
}

/** Go's encoder omits empty lists and maps. An apply decodes its body differently. */
function withoutEmptyMetadata(object: StoredObject): StoredObject {
  const isEmpty = (value: unknown): boolean =>
    typeof value === 'object' && value !== null && Object.keys(value).length === 0;
  const { metadata } = object;
  if (!Object.values(metadata).some(isEmpty)) return object;
  const members = Object.entries(metadata).filter(([, value]) => !isEmpty(value));
  return { ...object, metadata: Object.fromEntries(members) as unknown as StoredMetadata };
}

const listMeta = { kind: 'PartialObjectMetadataList', apiVersion: 'meta.k8s.io/v1' } as const;

function metadataOf({ metadata }: StoredObject): object {
  return { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata };
}

/** Removes the fields that the server itself sets at a creation, whatever the client sent. */
function withoutServerFields(metadata: StoredMetadata): StoredMetadata {
  const {
    uid,
    resourceVersion,
    creationTimestamp,
    deletionTimestamp,
    deletionGracePeriodSeconds,
    generation,
    managedFields,
    ...rest
  } = metadata;
  return rest;
}

/** Adds the fields that the server has set, because an update may omit them. */
function withServerFields(metadata: StoredMetadata, old: StoredMetadata): StoredMetadata {
  const { uid, creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds, resourceVersion, generation } = old;
  const always = { resourceVersion, ...(generation !== undefined && { generation }) };
  const kept = { uid, creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds };
  const missing = Object.entries(kept).filter(([name, value]) => value !== undefined && !(name in metadata));
  return { ...metadata, ...Object.fromEntries(missing), ...always } as StoredMetadata;
}

function finalizersAfter(finalizers: readonly string[], policy: string | undefined): readonly string[] {
  const own: Readonly<Record<string, string>> = { Orphan: 'orphan', Foreground: 'foregroundDeletion' };
  const others = finalizers.filter((each) => each !== 'orphan' && each !== 'foregroundDeletion');
  const added = policy === undefined ? undefined : own[policy];
  const all = added === undefined ? others : [...others, added];
  return all.length === finalizers.length && all.every((each) => finalizers.includes(each)) ? finalizers : all;
}

function withFinalizers({ finalizers: _, ...metadata }: StoredMetadata, finalizers: readonly string[]): StoredMetadata {
  return finalizers.length === 0 ? metadata : { ...metadata, finalizers };
}

/** The metadata that marks an object as being deleted. A second deletion may only shorten the time. */
function deletionOf(metadata: StoredMetadata, graceSeconds: number): Partial<StoredMetadata> {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0, generation } = metadata;
  if (deletionTimestamp !== undefined && deletionGracePeriodSeconds <= graceSeconds) return {};
  const at = new Date(Date.parse(nowIso()) + graceSeconds * 1000).toISOString().slice(0, 19);
  return {
    deletionTimestamp: `${at}Z`,
    deletionGracePeriodSeconds: graceSeconds,
    ...(deletionTimestamp === undefined && generation !== undefined && { generation: generation + 1 }),
  };
}

/** The path of the first member that decoding has dropped: `.spec.unknown`. Ignores zeros, which Go's encoder omits. */
function droppedMember(decoded: unknown, given: unknown, path = ''): string | undefined {
  if (Array.isArray(given)) {
    const items = Array.isArray(decoded) ? decoded : [];
    return given.map((item, index) => droppedMember(items[index], item, `${path}[${index}]`)).find(Boolean);
  }
  if (!isObject(given)) return undefined;
  for (const [name, value] of Object.entries(given)) {
    const member = isObject(decoded) ? decoded[name] : undefined;
    if (member === undefined && !isZero(value)) return `${path}.${name}`;
    const dropped = droppedMember(member, value, `${path}.${name}`);
    if (dropped !== undefined) return dropped;
  }
  return undefined;
}

const isZero = (value: unknown): boolean =>
  typeof value === 'object' && value !== null ? Object.keys(value).length === 0 : !value;

function requireVersion(kind: Kind, { metadata }: StoredObject, version: string | undefined): void {
  if (version === undefined || version === metadata.resourceVersion) return;
  const why = 'the object has been modified; please apply your changes to the latest version and try again';
  throw conflict(kind, metadata.name, why);
}

function requireDeletable(kind: Kind, { metadata }: StoredObject, { uid, resourceVersion }: Preconditions): void {
  const differs = (what: string, wanted: string, actual: string | undefined, how: string): never => {
    const name = kind.group === '' ? kind.kind : `${kind.kind}.${kind.group}`;
    const why = `the ${what} in the precondition (${wanted}) does not match the ${what} in record (${actual}). ${how}`;
    const message = `Operation cannot be fulfilled on ${name} "${metadata.name}": ${why}`;
    const details = { ...detailsOf(kind, metadata.name), kind: kind.kind };
    throw new RefusedError({ code: 409, reason: 'Conflict', message, details });
  };
  if (uid !== undefined && uid !== metadata.uid)
    differs('UID', uid, metadata.uid, 'The object might have been deleted and then recreated');
  if (resourceVersion !== undefined && resourceVersion !== metadata.resourceVersion)
    differs('ResourceVersion', resourceVersion, metadata.resourceVersion, 'The object might have been modified');
}

const detailsOf = (kind: Kind, name: string) => ({
  name,
  ...(kind.group !== '' && { group: kind.group }),
  kind: kind.plural,
});

function success(kind: Kind, { metadata: { name, uid } }: StoredObject): object {
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Success',
    details: { ...detailsOf(kind, name), uid },
  };
}

function notFound(kind: Kind, name: string): RefusedError {
  const message = `${resourceName(kind)} "${name}" not found`;
  return new RefusedError({ code: 404, reason: 'NotFound', message, details: detailsOf(kind, name) });
}

function alreadyExists(kind: Kind, { metadata: { name, deletionTimestamp } }: StoredObject): RefusedError {
  const prefix = deletionTimestamp === undefined ? '' : 'object is being deleted: ';
  const message = `${prefix}${resourceName(kind)} "${name}" already exists`;
  return new RefusedError({ code: 409, reason: 'AlreadyExists', message, details: detailsOf(kind, name) });
}

function conflict(kind: Kind, name: string, why: string): RefusedError {
  const message = `Operation cannot be fulfilled on ${resourceName(kind)} "${name}": ${why}`;
  return new RefusedError({ code: 409, reason: 'Conflict', message, details: detailsOf(kind, name) });
}

const uidConflict = (kind: Kind, name: string, expected: string, actual: string | undefined): RefusedError =>
  conflict(kind, name, `Precondition failed: UID in precondition: ${expected}, UID in object meta: ${actual ?? ''}`);

function terminating(kind: Kind, name: string, namespace: string): RefusedError {
  const why = `unable to create new content in namespace ${namespace} because it is being terminated`;
  return new RefusedError({
    code: 403,
    reason: 'Forbidden',
    message: `${resourceName(kind)} "${name}" is forbidden: ${why}`,
    details: {
      ...detailsOf(kind, name),
      causes: [
        {
          reason: 'NamespaceTerminating',
          message: `namespace ${namespace} is being terminated`,
          field: 'metadata.namespace',
        },
      ],
    },
  });
}

/** @throws {@link NotSimulatedError} for a version that asks for an earlier state. */
function requireKnownVersion(query: URLSearchParams): void {
  const [version, match] = [query.get('resourceVersion') ?? '', query.get('resourceVersionMatch') ?? ''];
  if (/^\d*$/.test(version) && (match === '' || match === 'NotOlderThan')) return;
  throw new NotSimulatedError(
    `the simulated API server does not know resourceVersion=${version}&resourceVersionMatch=${match}`,
  );
}

const expired = (message: string): RefusedError => new RefusedError({ code: 410, reason: 'Expired', message });

const invalidName = (kind: Kind): RefusedError =>
  invalid(kind, '', [fieldError('FieldValueRequired', 'metadata.name', 'name or generateName is required')]);

/** The storage names the resource in its message, whereas validation names the kind. */
function missingVersion(kind: Kind, name: string): RefusedError {
  const [field, message] = ['metadata.resourceVersion', 'Invalid value: 0: must be specified for an update'];
  return new RefusedError({
    code: 422,
    reason: 'Invalid',
    message: `${resourceName(kind)} "${name}" is invalid: ${field}: ${message}`,
    details: { ...detailsOf(kind, name), causes: [{ reason: 'FieldValueInvalid', field, message }] },
  });
}

function tooLargeVersion(version: string | null, current: number): RefusedError {
  const message = `Timeout: Too large resource version: ${version}, current: ${current}`;
  return new RefusedError({
    code: 504,
    reason: 'Timeout',
    message,
    details: {
      retryAfterSeconds: 1,
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
    },
  });
}
