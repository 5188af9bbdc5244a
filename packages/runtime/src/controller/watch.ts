import type { DeltaOrigin, Informer, InformerOptions, Writer } from '../cache/informer.ts';
import type { Delta } from '../cache/store.ts';
import { controllerOf, groupOf, type Kind } from '../kind/kind.ts';
import type { KubeObject, ObjectKey } from '../kind/object.ts';
import { UnreadableObjectError } from '../kind/unreadable-object.ts';
import type { Cause } from '../queue/cause.ts';
import type { Priority } from '../queue/fair-queue.ts';
import { DeltaCauses } from './delta-causes.ts';
import { type Predicate, passes } from './predicate.ts';

/** Returns the manager's shared informer of a kind. */
export type InformerSource = <T extends KubeObject>(kind: Kind<T>, options?: InformerOptions<T>) => Informer<T>;

/** How a key is added to a controller's queue. */
export interface EnqueueOptions {
  readonly priority?: Priority;
  /**
   * The change that alone caused this add, unless a list found it. If the change undoes what the key has written, the
   * key may have to wait. The metric of the event's latency counts from now.
   */
  readonly event?: Delta<KubeObject>;
  /** Set if the change contains only what a key sent: that key is not enqueued. */
  readonly writer?: Writer | undefined;
}

/** Adds a key to the controller's queue. The operator's observer receives the cause. */
export type Enqueue = (key: ObjectKey, options?: EnqueueOptions, cause?: Cause) => void;

/** A kind that a controller watches in addition to its own, and the mapping from its changes to keys. */
export interface Watch {
  /**
   * Adds a handler that calls `enqueue`. The handler is called immediately for objects that the informer already holds.
   *
   * @param tracksCauses whether to pass causes: true if the operator has an observer.
   * @returns a function that removes the handler.
   */
  attach(informers: InformerSource, enqueue: Enqueue, tracksCauses?: boolean): () => void;
}

/** Limits the events of a watch. */
export interface WatchFilter<T extends KubeObject> {
  /** Which changes enqueue keys. Default: all. */
  readonly predicate?: Predicate<T>;
  /** Options of the kind's informer; see `Manager.informer`. */
  readonly informer?: InformerOptions<T>;
}

/**
 * Watches another kind.
 *
 * @param keysOf maps an object to the keys to reconcile. After a change it is called with the new and the previous
 *   object, so that the keys to which the object no longer maps are enqueued too. It is called in order, after the
 *   store has applied the change. It must be synchronous and must not throw or write.
 */
export function watches<T extends KubeObject>(
  kind: Kind<T>,
  keysOf: (object: T) => Iterable<ObjectKey>,
  filter: WatchFilter<T> = {},
): Watch {
  return watchDeltas(kind, (delta) => keysBeforeAndAfter(delta, keysOf), filter);
}

export function keysBeforeAndAfter<T extends KubeObject>(
  delta: Delta<T>,
  keysOf: (object: T) => Iterable<ObjectKey>,
): readonly ObjectKey[] {
  const after = keysIfReadable(delta.object, keysOf);
  if (delta.type !== 'modified') return after;
  const before = keysIfReadable(delta.previous, keysOf);
  const isSame = before.length === after.length && before.every((key, n) => isSameKey(key, after[n]));
  // The queue holds a key once, so a duplicate does no harm.
  return isSame ? after : [...before, ...after];
}

/** Returns no keys if `keysOf` needs an unreadable member. The informer has logged the object. */
function keysIfReadable<T extends KubeObject>(
  object: T,
  keysOf: (object: T) => Iterable<ObjectKey>,
): readonly ObjectKey[] {
  try {
    return [...keysOf(object)];
  } catch (error) {
    if (error instanceof UnreadableObjectError) return [];
    throw error;
  }
}

const isSameKey = (a: ObjectKey, b: ObjectKey | undefined): boolean =>
  a.name === b?.name && a.namespace === b.namespace;

/** Watches another kind. @param keysOf maps a change to the keys to reconcile */
export function watchDeltas<T extends KubeObject>(
  kind: Kind<T>,
  keysOf: (delta: Delta<T>) => Iterable<ObjectKey>,
  { predicate, informer: options }: WatchFilter<T> = {},
): Watch {
  return {
    attach: (informers, enqueue, tracksCauses = false) => {
      const informer = informers(kind, options);
      const causes = tracksCauses ? new DeltaCauses(kind.kind, informer.trackFieldOwners()) : undefined;
      return informer.addHandler((delta, origin, writer) => {
        if (!passes(predicate, delta)) return;
        const enqueueOptions = enqueueOptionsOf(delta, origin, writer);
        let cause: Cause | undefined;
        for (const key of keysOf(delta)) {
          // Compute the cause only for an enqueued key: most Pods of a cluster map to no key.
          cause ??= causes?.of(delta, origin);
          enqueue(key, enqueueOptions, cause);
        }
      });
    },
  };
}

/**
 * Watches the children that objects of `owner` control directly. The pods of a Deployment are not among them, because
 * they belong to its ReplicaSet. A child whose controller changes enqueues both owners. The version in the owner
 * reference is ignored: it is the version in which the owner was served when the child was created. Another owner's
 * object that has the name of a child enqueues no key.
 *
 * @example watches: [owns(Greeting, ConfigMap)]
 */
export function owns<T extends KubeObject>(owner: Kind, child: Kind<T>, filter: WatchFilter<T> = {}): Watch {
  return watches(child, (object) => ownerKeys(owner, object), filter);
}

/** The key of the object of kind `owner` that controls a child. Empty if no such object controls it. */
export function ownerKeys(owner: Kind, child: KubeObject): readonly ObjectKey[] {
  const reference = controllerOf(child);
  if (reference?.kind !== owner.kind || groupOf(reference.apiVersion) !== owner.group) return [];
  if (owner.scope === 'Cluster') return [{ name: reference.name }];
  const { namespace } = child.metadata;
  // The garbage collector deletes a cluster-scoped child of a namespaced owner.
  return namespace === undefined ? [] : [{ name: reference.name, namespace }];
}

const foundByList = { priority: 'low' } as const;

/** Changes found by a list have low priority: they may be old, whereas a watch delivers live changes. */
export const enqueueOptionsOf = (
  delta: Delta<KubeObject>,
  origin: DeltaOrigin,
  writer: Writer | undefined,
): EnqueueOptions => (origin === 'list' ? foundByList : { event: delta, writer });
