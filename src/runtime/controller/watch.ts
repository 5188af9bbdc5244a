import type { CacheProgress, Delta, Informer } from '../cache/index.ts';
import { apiVersionOf, controllerOf, type Kind, type KubeObject, type ObjectKey } from '../kind/index.ts';

/** Gives the manager's shared informer of a kind. */
export type InformerSource = <T extends KubeObject>(kind: Kind<T>) => Informer<T>;

/** A kind that a controller watches beside its own, and how a change there leads to a key of its own. */
export interface Watch {
  /** Begins to call `enqueue`; returns the informer that it stands on. */
  attach(informers: InformerSource, enqueue: (key: ObjectKey) => void): CacheProgress;
}

/**
 * Watches another kind.
 *
 * @param keysOf the keys to reconcile after a change. Called in the order of changes, after the store has them; must
 *   not throw, wait or write.
 */
export function watches<T extends KubeObject>(kind: Kind<T>, keysOf: (delta: Delta<T>) => Iterable<ObjectKey>): Watch {
  return {
    attach: (informers, enqueue) => {
      const informer = informers(kind);
      informer.addHandler((delta) => {
        for (const key of keysOf(delta)) enqueue(key);
      });
      return informer;
    },
  };
}

/**
 * Watches the children that objects of `owner` control. A child that passes from one owner to another leads to both.
 */
export function owns<T extends KubeObject>(owner: Kind, child: Kind<T>): Watch {
  const apiVersion = apiVersionOf(owner);
  const ownerKey = (object: KubeObject): ObjectKey[] => {
    const reference = controllerOf(object);
    if (reference?.kind !== owner.kind || reference.apiVersion !== apiVersion) return [];
    const { namespace } = object.metadata;
    return [
      owner.scope === 'Cluster' || namespace === undefined
        ? { name: reference.name }
        : { name: reference.name, namespace },
    ];
  };
  return watches(child, (delta) =>
    delta.type === 'modified' ? [...ownerKey(delta.previous), ...ownerKey(delta.object)] : ownerKey(delta.object),
  );
}
