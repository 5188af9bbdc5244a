import { keyOf } from '@echoperator/runtime';
import type { OwnerReference } from '@echoperator/runtime/client';
import { objectPath } from '@echoperator/runtime/internal';
import type { SimulatedApiServer } from './simulated-api-server.ts';
import type { SimulationStep } from './simulated-network.ts';
import type { StoredObject } from './strategy.ts';

/**
 * Deletes objects whose owners are gone, and finishes foreground and orphaning deletions, as the garbage collector of
 * kube-controller-manager does.
 */
export class GarbageCollector {
  readonly #server: SimulatedApiServer;
  #revision = 0;

  constructor(server: SimulatedApiServer) {
    this.#server = server;
  }

  /**
   * The garbage collector's next steps.
   *
   * @throws NotSimulatedError if an owner is of a kind that the server does not serve
   */
  steps(): readonly SimulationStep[] {
    // Nothing has changed since the last call, which found no steps.
    if (this.#revision === this.#server.revision) return [];
    const objects = [...this.#server.all()];
    for (const object of objects) {
      const step = this.#stepFor(object, objects);
      if (step !== undefined) return [step];
    }
    this.#revision = this.#server.revision;
    return [];
  }

  #stepFor(object: StoredObject, objects: readonly StoredObject[]): SimulationStep | undefined {
    const { ownerReferences = [], finalizers = [], deletionTimestamp, uid } = object.metadata;
    if (deletionTimestamp === undefined && ownerReferences.length > 0) {
      const present = ownerReferences.filter((reference) => {
        if (objects.some((owner) => isOwner(owner, reference, object))) return true;
        // The real one deletes nothing whose owner is of an unknown kind.
        this.#server.kindOf(reference);
        return false;
      });
      if (present.length === 0)
        return this.#step('deletes', object, 'DELETE', { preconditions: { uid }, propagationPolicy: 'Background' });
      if (present.length < ownerReferences.length) return this.#patch('unlinks', object, { ownerReferences: present });
    }
    const dependents = objects.filter(({ metadata }) => metadata.ownerReferences?.some((each) => each.uid === uid));
    if (finalizers.includes('orphan')) {
      const [dependent] = dependents;
      if (dependent === undefined) return this.#release(object, 'orphan');
      const others = dependent.metadata.ownerReferences?.filter((each) => each.uid !== uid) ?? [];
      return this.#patch('orphans', dependent, { ownerReferences: others.length > 0 ? others : null });
    }
    if (!finalizers.includes('foregroundDeletion')) return undefined;
    const live = dependents.find(({ metadata }) => metadata.deletionTimestamp === undefined);
    const others = live?.metadata.ownerReferences?.filter((each) => each.uid !== uid) ?? [];
    if (live !== undefined && others.length > 0) return this.#patch('unlinks', live, { ownerReferences: others });
    if (live !== undefined)
      return this.#step('deletes', live, 'DELETE', {
        preconditions: { uid: live.metadata.uid },
        propagationPolicy: 'Foreground',
      });
    const blocks = ({ metadata }: StoredObject): boolean =>
      metadata.ownerReferences?.some((each) => each.uid === uid && each.blockOwnerDeletion === true) === true;
    return dependents.some(blocks) ? undefined : this.#release(object, 'foregroundDeletion');
  }

  #release(object: StoredObject, finalizer: string): SimulationStep {
    const others = object.metadata.finalizers?.filter((each) => each !== finalizer) ?? [];
    return this.#patch('releases', object, { finalizers: others.length > 0 ? others : null });
  }

  #patch(verb: string, object: StoredObject, metadata: object): SimulationStep {
    const { resourceVersion } = object.metadata;
    return this.#step(verb, object, 'PATCH', { metadata: { ...metadata, resourceVersion } });
  }

  #step(verb: string, object: StoredObject, method: string, body: object): SimulationStep {
    return {
      description: `garbage collector: ${verb} ${object.kind} ${object.metadata.name}`,
      run: () => {
        const path = objectPath(this.#server.kindOf(object), keyOf(object));
        const headers = { 'content-type': 'application/merge-patch+json' };
        this.#server.handle({ method, path, headers, body: JSON.stringify(body) });
      },
    };
  }
}

/**
 * Whether the object is the referenced owner. An object with another namespace, kind or name is not, even if its uid
 * matches.
 */
function isOwner(owner: StoredObject, reference: OwnerReference, { metadata }: StoredObject): boolean {
  return (
    owner.metadata.uid === reference.uid &&
    owner.kind === reference.kind &&
    owner.metadata.name === reference.name &&
    (owner.metadata.namespace === undefined || owner.metadata.namespace === metadata.namespace)
  );
}
