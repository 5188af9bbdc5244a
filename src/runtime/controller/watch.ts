import type { CacheProgress, Delta, DeltaOrigin, Informer, InformerOptions } from '../cache/index.ts';
import {
  controllerOf,
  groupOf,
  type Kind,
  type KubeObject,
  keyOf,
  keyString,
  type ObjectKey,
  versionedResource,
} from '../kind/index.ts';
import type { Priority } from '../queue/index.ts';
import type { Predicate } from './predicate.ts';

/** Gives the manager's shared informer of a kind. */
export type InformerSource = <T extends KubeObject>(kind: Kind<T>, options?: InformerOptions<T>) => Informer<T>;

/** Asks for a key to be reconciled. */
export type Enqueue = (key: ObjectKey, options?: { readonly priority?: Priority }) => void;

/** A watch that is attached. */
export interface Attachment {
  /** On which it stands. */
  readonly informer: CacheProgress;
  /** Ends its calls. */
  detach(): void;
}

/** A kind that a controller watches beside its own, and how a change there leads to a key of its own. */
export interface Watch {
  /** Begins to call `enqueue`; for what the informer holds already at once. */
  attach(informers: InformerSource, enqueue: Enqueue): Attachment;
}

/** What a watch leaves out. */
export interface WatchFilter<T extends KubeObject> {
  /** Changes that matter. Default: all. */
  readonly predicate?: Predicate<T>;
  /** What the informer of the kind is to hold; see `Manager.informer`. */
  readonly informer?: InformerOptions<T>;
}

/**
 * Watches another kind.
 *
 * @param keysOf the keys to reconcile after a change. Called in the order of changes, after the store has them; must
 *   not throw, wait or write.
 */
export function watches<T extends KubeObject>(
  kind: Kind<T>,
  keysOf: (delta: Delta<T>) => Iterable<ObjectKey>,
  { predicate, informer: options }: WatchFilter<T> = {},
): Watch {
  return {
    attach: (informers, enqueue) => {
      const informer = informers(kind, options);
      const detach = informer.addHandler((delta, origin) => {
        if (predicate !== undefined && !predicate(delta)) return;
        const urgency = urgencyOf(origin);
        for (const key of keysOf(delta)) enqueue(key, urgency);
      });
      return { informer, detach };
    },
  };
}

/**
 * Watches the children that objects of `owner` control. A child that passes from one owner to another leads to both.
 * The version in an owner reference does not matter: it is the one that the owner was served in when the child was made.
 *
 * @example watches: [owns(Echo, Job, { predicate: or(generationChanged, deletion) })]
 */
export function owns<T extends KubeObject>(owner: Kind, child: Kind<T>, filter: WatchFilter<T> = {}): Watch {
  const ownerKey = (object: KubeObject): ObjectKey | undefined => {
    const reference = controllerOf(object);
    if (reference?.kind !== owner.kind || groupOf(reference.apiVersion) !== owner.group) return undefined;
    const { namespace } = object.metadata;
    return owner.scope === 'Cluster' || namespace === undefined
      ? { name: reference.name }
      : { name: reference.name, namespace };
  };
  const keysOf = (delta: Delta<T>): readonly ObjectKey[] => {
    const key = ownerKey(delta.object);
    const before = delta.type === 'modified' && hasNewController(delta) ? ownerKey(delta.previous) : undefined;
    return [before, key].filter((each) => each !== undefined);
  };
  return watches(child, keysOf, filter);
}

/** Options of {@link ownsByName}. */
export interface NamedChildrenOptions<Owner extends KubeObject, Child extends KubeObject> extends WatchFilter<Child> {
  /**
   * Called for each owner of a child that changed, before the owner's key is enqueued: for what the store cannot tell later,
   * such as the last state of a deleted child. Must not throw, wait or write.
   */
  readonly observe?: (owner: Owner, delta: Delta<Child>) => void;
}

/** A watch of children by their names. */
export interface NamedChildren<Owner extends KubeObject> extends Watch {
  /** The owners in the store that have a child of this key, whether or not it exists. */
  readonly ownersOf: (child: ObjectKey) => readonly Owner[];
}

/**
 * Watches the children of each owner by their names. Unlike {@link owns} it also leads from an object that has the name of a
 * child but another controller: the name is taken, and it is free again when that object goes. Adds an index to `owners`.
 *
 * @param childKeys the keys of an owner's children. Must be pure, and depend on the owner alone.
 * @throws RangeError if these owners already have a watch of this kind of child by name.
 *
 * @example watches: [ownsByName(echos, Job, (echo) => [jobKeyOf(keyOf(echo))])]
 */
export function ownsByName<Owner extends KubeObject, Child extends KubeObject>(
  owners: Pick<Informer<Owner>, 'addIndex' | 'store'>,
  child: Kind<Child>,
  childKeys: (owner: Owner) => readonly ObjectKey[],
  { observe, ...filter }: NamedChildrenOptions<Owner, Child> = {},
): NamedChildren<Owner> {
  const index = `child ${versionedResource(child)}`;
  owners.addIndex(index, (owner) => childKeys(owner).map(keyString));
  const ownersOf = (key: ObjectKey): readonly Owner[] => [...owners.store.byIndex(index, keyString(key))];
  const keysOf = (delta: Delta<Child>): readonly ObjectKey[] => {
    const found = ownersOf(keyOf(delta.object));
    for (const owner of found) observe?.(owner, delta);
    return found.map(keyOf);
  };
  return { ...watches(child, keysOf, filter), ownersOf };
}

const hasNewController = (delta: { readonly object: KubeObject; readonly previous: KubeObject }): boolean =>
  controllerOf(delta.object)?.uid !== controllerOf(delta.previous)?.uid;

const low = { priority: 'low' } as const;

/** Nobody waits for what a list has found; what a watch tells has just happened. */
export const urgencyOf = (origin: DeltaOrigin): { readonly priority: Priority } | undefined =>
  origin === 'list' ? low : undefined;
