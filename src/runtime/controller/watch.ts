import type { CacheProgress, Delta, DeltaOrigin, Informer, InformerOptions } from '../cache/index.ts';
import { controllerOf, type Kind, type KubeObject, type ObjectKey } from '../kind/index.ts';
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

/** Empty for the core group, whose `apiVersion` is the version alone. */
const groupOf = (apiVersion: string): string => apiVersion.slice(0, Math.max(apiVersion.indexOf('/'), 0));

const hasNewController = (delta: { readonly object: KubeObject; readonly previous: KubeObject }): boolean =>
  controllerOf(delta.object)?.uid !== controllerOf(delta.previous)?.uid;

const low = { priority: 'low' } as const;

/** Nobody waits for what a list has found; what a watch tells has just happened. */
export const urgencyOf = (origin: DeltaOrigin): { readonly priority: Priority } | undefined =>
  origin === 'list' ? low : undefined;
