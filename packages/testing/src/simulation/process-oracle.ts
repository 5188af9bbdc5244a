import { isDeepStrictEqual } from 'node:util';
import type { Manager } from '@echoperator/runtime';
import { isControlledBy, type Kind, type KubeObject, keyString } from '@echoperator/runtime';
import type { AnyInformer } from '@echoperator/runtime/cache';
import type { ClientRequest } from '@echoperator/runtime/client';
import {
  compareResourceVersions,
  parseKey,
  parseLabelSelector,
  versionedResource,
  viewedResource,
} from '@echoperator/runtime/internal';
import type {
  ControllerObserver,
  ObservedController,
  OperatorObserver,
  ReconcileTrace,
} from '@echoperator/runtime/process';
import type { SimulatedApiServer } from './simulated-api-server.ts';
import type { StoredObject } from './strategy.ts';

/** A change by another client than the operator's process that the controller has not reconciled. */
export interface MissedChange {
  /** The controller's name. */
  readonly controller: string;
  /** The kind of the changed object: the controller's own, or that of a child. */
  readonly kind: string;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: KubeObject;
  /** Undefined for a creation. */
  readonly previous: KubeObject | undefined;
}

/** What a cache has shown for a name. */
interface Shown {
  readonly uid: string;
  readonly version: string;
}

/** A response to a write of a reconcile. */
interface Written {
  readonly request: ClientRequest;
  readonly uid: string;
  readonly version: string;
  /** Whether the object no longer exists. */
  readonly isGone: boolean;
  /** The uid of the object that the cache held when the request was sent. */
  readonly heldUid: string | undefined;
}

/** What a cache showed of an object when a reconcile began. */
interface Seen {
  readonly version: string;
  /** Whether the object belongs to the key or is its child. */
  readonly isOfKey: boolean;
}

/** A controller, and what its reconciles have seen. */
interface Watched {
  readonly controller: ObservedController;
  /** By key, then by uid: what the caches showed of the key's namespace when the last reconcile began. */
  readonly starts: Map<string, ReadonlyMap<string, Seen>>;
  /** By key: how many requests of its reconciles have no response yet. */
  readonly inFlight: Map<string, number>;
  /** By key: the version at which the predicate rejected a change. */
  readonly dropped: Map<string, string>;
}

/**
 * Checks one process of an operator against the guarantees of its runtime (see `Overlay` and `ReconcileRequests`),
 * whatever its controllers do.
 *
 * At any time: no cache goes back in time, and no deleted object comes back. A cache shows what the response to a write
 * of a reconcile has shown, and nothing outside its selection. No reconcile of a key begins while a request of that key
 * has no response.
 *
 * At rest: each cache equals the server. The last reconcile of each key began when the caches showed all changes that
 * other clients have made to its object and its children.
 */
export class ProcessOracle implements OperatorObserver {
  readonly #process: string;
  readonly #server: SimulatedApiServer;
  #manager: Manager | undefined;
  readonly #controllers = new Map<string, Watched>();
  /** By informer, then by name: what the handlers have received. */
  readonly #mirrors = new Map<AnyInformer, Map<string, Shown>>();
  /** `uid@version` of each response to a write. */
  readonly #responses = new Set<string>();
  #lastResponse: { readonly uid: string; readonly version: string; readonly isGone: boolean } | undefined;
  #written: Written[] = [];
  /** The uids of objects that the process has deleted. */
  readonly #deleted = new Set<string>();
  #violation: string | undefined;

  constructor(process: string, server: SimulatedApiServer) {
    this.#process = process;
    this.#server = server;
  }

  /** Starts to check the caches. Call it before the manager runs. */
  watch(manager: Manager): void {
    this.#manager = manager;
    for (const informer of manager.inspect().informers) this.#mirror(informer);
  }

  /** Call this when the process gets a response to a write. */
  responded(method: string, body: object): void {
    const { metadata, details } = body as Partial<KubeObject> & { readonly details?: { readonly uid?: string } };
    const uid = metadata?.uid ?? details?.uid;
    this.#lastResponse = undefined;
    if (method === 'GET' || uid === undefined) return;
    const { deletionTimestamp, deletionGracePeriodSeconds = 0, finalizers = [] } = metadata ?? {};
    const isReleased = deletionTimestamp !== undefined && deletionGracePeriodSeconds === 0 && finalizers.length === 0;
    const isGone = isReleased || (method === 'DELETE' && deletionTimestamp === undefined);
    const version = metadata?.resourceVersion ?? '';
    this.#lastResponse = { uid, version, isGone };
    this.#responses.add(`${uid}@${version}`);
  }

  controller(controller: ObservedController): ControllerObserver {
    const watched: Watched = { controller, starts: new Map(), inFlight: new Map(), dropped: new Map() };
    this.#controllers.set(controller.name, watched);
    return {
      filtered: (key) => {
        const version = this.#informerOf(controller.kind)?.store.get(parseKey(key))?.metadata.resourceVersion;
        if (version !== undefined) watched.dropped.set(key, version);
      },
      started: (key) => {
        if ((watched.inFlight.get(key) ?? 0) > 0)
          this.#reportViolation(
            `a reconcile of ${controller.name} ${key} begins while a request of the one before has no response`,
          );
        watched.starts.set(key, this.#seen(controller, key));
        return this.#trace(watched, key);
      },
    };
  }

  controllerRemoved(name: string): void {
    this.#controllers.delete(name);
  }

  /** Returns the first violation of what must hold at any time. Call it after each step, when the process is quiet. */
  problem(): string | undefined {
    for (const written of this.#written.splice(0)) this.#requireShown(written);
    for (const informer of this.#mirrors.keys()) this.#requireSelected(informer);
    return this.#violation;
  }

  /**
   * Returns a violation of what must hold when everything has been delivered and the process is at rest.
   *
   * @param mayMiss whether a predicate rejects the change on purpose.
   */
  problemAtRest(isWorking: boolean, mayMiss: (change: MissedChange) => boolean): string | undefined {
    for (const informer of this.#mirrors.keys()) {
      const difference = this.#differenceOf(informer);
      if (difference !== undefined) return `the cache of ${this.#process} ${difference}`;
      const { waitingResponses, kind } = informer;
      if (waitingResponses > 0)
        return `the cache of ${this.#process} still waits for the events of ${waitingResponses} ${kind.plural}`;
    }
    return isWorking ? this.#missedChange(mayMiss) : undefined;
  }

  #reportViolation(what: string): void {
    this.#violation ??= `${this.#process}: ${what}`;
  }

  /** The first informer of a kind, or of a view of it. */
  #informerOf(kind: Kind): AnyInformer | undefined {
    return this.#informersOf(kind).find((each) => viewedResource(each.kind) === viewedResource(kind));
  }

  /** The informers of all views of a kind. */
  #informersOf(kind: Kind): readonly AnyInformer[] {
    const informers = this.#manager?.inspect().informers ?? [];
    return informers.filter((each) => versionedResource(each.kind) === versionedResource(kind));
  }

  #mirror(informer: AnyInformer): void {
    const mirror = new Map<string, Shown>();
    const gone = new Set<string>();
    this.#mirrors.set(informer, mirror);
    const { labelSelector, fieldSelector } = informer.selection;
    // With a selector, an object may leave the cache and come back.
    const mayReturn = labelSelector !== undefined || fieldSelector !== undefined;
    informer.addHandler(({ type, object }) => {
      const { uid, resourceVersion: version } = object.metadata;
      const [key, name] = [keyString(object.metadata), `${informer.kind.kind} ${object.metadata.name}`];
      const known = mirror.get(key);
      if ((type === 'added') !== (known === undefined))
        this.#reportViolation(`${name} is ${type}, but it was known: ${known !== undefined}`);
      else if (known !== undefined && known.uid !== uid)
        this.#reportViolation(`${name} is ${type}, but has another uid`);
      else if (type === 'modified' && compareResourceVersions(version, known?.version ?? version) < 0)
        this.#reportViolation(`the cache goes back in time: ${name} had version ${known?.version}, now ${version}`);
      else if (type === 'added' && gone.has(uid) && (!mayReturn || this.#deleted.has(uid)))
        this.#reportViolation(`${name} was gone, and comes back`);
      if (type === 'deleted') {
        mirror.delete(key);
        gone.add(uid);
      } else mirror.set(key, { uid, version });
    });
  }

  /** Whether a controller watches a kind. */
  #isWatched(controller: string, kind: Kind): boolean {
    return this.#manager?.inspect().watched.get(controller)?.has(versionedResource(kind)) === true;
  }

  #seen({ name, kind }: ObservedController, key: string): ReadonlyMap<string, Seen> {
    const { namespace } = parseKey(key);
    const owner = this.#informerOf(kind)?.store.get(parseKey(key));
    const seen = new Map<string, Seen>();
    for (const { kind: each, store } of this.#mirrors.keys()) {
      const isWatched = this.#isWatched(name, each);
      for (const object of namespace === undefined ? store.list() : store.byNamespace(namespace)) {
        const { uid, resourceVersion: version } = object.metadata;
        const isChild = isWatched && owner !== undefined && isControlledBy(object, owner);
        seen.set(uid, { version, isOfKey: object === owner || isChild });
      }
    }
    return seen;
  }

  #childrenOf(owner: KubeObject): readonly { readonly child: KubeObject; readonly kind: Kind }[] {
    return [...this.#mirrors.keys()].flatMap(({ kind, store }) =>
      store
        .list()
        .filter((object) => isControlledBy(object, owner))
        .map((child) => ({ child, kind })),
    );
  }

  #trace({ inFlight }: Watched, key: string): ReconcileTrace {
    return {
      requested: (request) => {
        inFlight.set(key, (inFlight.get(key) ?? 0) + 1);
        const heldUid = request.key && this.#informerOf(request.kind)?.store.get(request.key)?.metadata.uid;
        return {
          responded: (error) => {
            inFlight.set(key, (inFlight.get(key) ?? 0) - 1);
            if (error === undefined) this.#answered(request, heldUid);
          },
        };
      },
      unchanged() {},
      differs() {},
      reported() {},
      ended() {},
    };
  }

  /** Whether the response is the last one that the process has received. */
  #answered(request: ClientRequest, heldUid: string | undefined): void {
    const { verb, key, isDryRun, isMetadataOnly } = request;
    const response = this.#lastResponse;
    this.#lastResponse = undefined;
    if (response === undefined || key === undefined || isDryRun || isMetadataOnly || verb === 'get') return;
    this.#written.push({ request, heldUid, ...response });
  }

  #requireShown(written: Written): void {
    for (const informer of this.#informersOf(written.request.kind)) this.#requireShownBy(informer, written);
  }

  #requireShownBy(informer: AnyInformer, { request: { kind, key }, uid, version, isGone, heldUid }: Written): void {
    if (key === undefined) return;
    const held = informer.store.get(key)?.metadata;
    const name = `${kind.kind} ${key.name}`;
    if (isGone) {
      if (heldUid === uid) this.#deleted.add(uid);
      if (held?.uid === uid) this.#reportViolation(`the cache shows ${name}, which the process has deleted`);
      return;
    }
    const isOlder = held?.uid === uid && compareResourceVersions(held.resourceVersion, version) < 0;
    const { labelSelector, fieldSelector, namespaces } = informer.selection;
    const isSelected =
      labelSelector === undefined && fieldSelector === undefined && namespaces?.includes(key.namespace ?? '') !== false;
    const isLacking = isSelected && held?.uid !== uid && this.#current(kind, uid) !== undefined;
    if (isOlder || isLacking)
      this.#reportViolation(`the cache does not show ${name} at version ${version}, which the process has written`);
  }

  #requireSelected({ kind, store, selection }: AnyInformer): void {
    const { labelSelector } = selection;
    const selects = labelSelector === undefined ? undefined : parseLabelSelector(labelSelector);
    if (selects === undefined) return;
    const other = store.list().find(({ metadata }) => !selects((label) => metadata.labels?.[label]));
    if (other !== undefined)
      this.#reportViolation(
        `the cache shows ${kind.kind} ${other.metadata.name}, which ${labelSelector} does not select`,
      );
  }

  #current(kind: Kind, uid: string): StoredObject | undefined {
    return this.#server.objects(kind).find(({ metadata }) => metadata.uid === uid);
  }

  /** Returns how a cache differs from the server. */
  #differenceOf(informer: AnyInformer): string | undefined {
    const { kind, store, selection } = informer;
    const { namespaces, labelSelector, fieldSelector } = selection;
    const selected = (namespaces ?? [undefined]).flatMap((namespace) =>
      this.#server.select(kind, { namespace, labelSelector, fieldSelector }),
    );
    const left = new Map(store.list().map((object) => [keyString(object.metadata), object]));
    for (const object of selected) {
      const name = `${kind.kind} ${object.metadata.name}`;
      const held = left.get(keyString(object.metadata));
      left.delete(keyString(object.metadata));
      if (held === undefined) return `lacks ${name}`;
      const wanted = informer.asStored(object as unknown as KubeObject);
      if (held.metadata.uid !== wanted.metadata.uid) return `has ${name} with another uid`;
      if (held.metadata.resourceVersion !== wanted.metadata.resourceVersion)
        return `has ${name} at version ${held.metadata.resourceVersion}, not ${wanted.metadata.resourceVersion}`;
      if (!isDeepStrictEqual(withoutType(held), withoutType(wanted)))
        return `has ${name} with other fields than the server`;
    }
    const [extra] = left.values();
    return extra && `still has ${kind.kind} ${extra.metadata.name}`;
  }

  #missedChange(mayMiss: (change: MissedChange) => boolean): string | undefined {
    for (const each of this.#controllers.values()) {
      const { kind, name } = each.controller;
      const own = this.#informerOf(kind);
      for (const object of own?.store.list() ?? []) {
        const key = keyString(object.metadata);
        const seen = each.starts.get(key);
        const children = this.#childrenOf(object).filter((each) => this.#isWatched(name, each.kind));
        for (const { child, kind: changed } of [{ child: object, kind }, ...children]) {
          const dropped = changed === kind ? each.dropped.get(key) : undefined;
          const missed = this.#missedChangeOf(
            each,
            changed,
            child,
            dropped ?? seen?.get(child.metadata.uid)?.version,
            mayMiss,
          );
          if (missed !== undefined) return `${name} has not reconciled ${key} after ${missed}`;
        }
      }
      const stored = new Set(
        [...this.#mirrors.keys()].flatMap(({ store }) => store.list().map(({ metadata }) => metadata.uid)),
      );
      for (const [key, seen] of each.starts) {
        for (const [uid, { isOfKey }] of seen) {
          const missed = isOfKey && !stored.has(uid) ? this.#missedDeletionOf(each, uid, mayMiss) : undefined;
          if (missed !== undefined) return `${name} has not reconciled ${key} after ${missed}`;
        }
      }
    }
    return undefined;
  }

  #missedChangeOf(
    { controller }: Watched,
    kind: Kind,
    { metadata: { uid, name } }: KubeObject,
    seen: string | undefined,
    mayMiss: (change: MissedChange) => boolean,
  ): string | undefined {
    const last = this.#server.changes(kind).findLast(({ by, type, object, before }) => {
      if (object.metadata.uid !== uid || by === this.#process) return false;
      // The response to a write that changed nothing has shown this version.
      if (this.#responses.has(`${uid}@${object.metadata.resourceVersion}`)) return false;
      if (controller.predicate !== undefined && kind === controller.kind && isOnlyStatus(object, before)) return false;
      return !mayMiss({
        controller: controller.name,
        kind: kind.kind,
        type,
        object: asObject(object),
        previous: before && asObject(before),
      });
    });
    const version = last?.object.metadata.resourceVersion;
    if (last === undefined || version === undefined) return undefined;
    if (seen !== undefined && compareResourceVersions(seen, version) >= 0) return undefined;
    return `${last.by ?? 'the cluster'} changed ${kind.kind} ${name}: ${last.type} at version ${version}`;
  }

  #missedDeletionOf(
    { controller }: Watched,
    uid: string,
    mayMiss: (change: MissedChange) => boolean,
  ): string | undefined {
    for (const { kind, selection } of this.#mirrors.keys()) {
      if (selection.labelSelector !== undefined || selection.fieldSelector !== undefined) continue;
      const last = this.#server.changes(kind).findLast(({ object }) => object.metadata.uid === uid);
      if (last?.type !== 'DELETED') continue;
      const object = asObject(last.object);
      if (mayMiss({ controller: controller.name, kind: kind.kind, type: 'DELETED', object, previous: object }))
        continue;
      return `${last.by ?? 'the cluster'} deleted ${kind.kind} ${last.object.metadata.name}`;
    }
    return undefined;
  }
}

const asObject = (object: StoredObject): KubeObject => object as unknown as KubeObject;

/** Items of a list of a built-in kind have no `apiVersion` and `kind`. */
const withoutType = ({ apiVersion: _, kind: __, ...object }: KubeObject): object => object;

function isOnlyStatus(object: StoredObject, before: StoredObject | undefined): boolean {
  if (before === undefined) return false;
  const { deletionTimestamp } = object.metadata;
  if (deletionTimestamp !== before.metadata.deletionTimestamp) return false;
  const compared = ({ status: _, metadata, ...rest }: StoredObject): object => {
    const { managedFields: __, resourceVersion: ___, ...others } = metadata;
    return { ...rest, metadata: others };
  };
  return isDeepStrictEqual(compared(object), compared(before));
}
