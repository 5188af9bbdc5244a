import { type Condition, findCondition, type KubeObject, type StandardStatus } from '../kind/index.ts';
import type { Facts } from './facts.ts';
import type { ObservedResponse } from './fault-proxy.ts';
import type { ProxiedRequest } from './proxied-request.ts';

/** How often an operator has created and deleted each object. */
export class ChangeCounts {
  /** The uids of the created and deleted objects, by `created configmaps world`. */
  readonly #uids = new Map<string, Set<string>>();

  get facts(): Facts {
    return new Map([...this.#uids].map(([change, uids]) => [change, uids.size]));
  }

  /** @param canonicalName replaces random parts of a name */
  record(
    { verb, resource }: ProxiedRequest,
    { status, body }: ObservedResponse,
    { canonicalName, isLastStep }: { canonicalName(name: string): string; readonly isLastStep: boolean },
  ): void {
    if (status >= 300 || resource === 'events') return;
    const isDeletion = verb === 'delete';
    if (!isDeletion && status !== 201) return;
    // The operator may observe that a child is gone before it observes that its owner is, and create the child once more.
    if (!isDeletion && isLastStep) return;
    const { metadata = {}, details = {} } = JSON.parse(body);
    const name = canonicalName(String(metadata.name ?? details.name));
    const change = `${resource} ${name} ${isDeletion ? 'deleted' : 'created'}`;
    // An object that terminates slowly may be deleted again, which changes nothing.
    this.#uids.set(change, (this.#uids.get(change) ?? new Set()).add(String(metadata.uid ?? details.uid)));
  }
}

type ConditionedObject = KubeObject & { readonly status?: StandardStatus };

/** Whether `lastTransitionTime` of conditions changes only with their status. */
export class TransitionTimes {
  /** By uid. */
  readonly #conditions = new Map<string, readonly Condition[]>();

  /** Returns what is wrong. An ADDED event may be of a list, which skips what happened before. */
  observe(eventType: string, { metadata, status }: ConditionedObject): string | undefined {
    const conditions = status?.conditions ?? [];
    const before = eventType === 'MODIFIED' ? this.#conditions.get(metadata.uid) : undefined;
    this.#conditions.set(metadata.uid, conditions);
    const wrong = conditions.find(({ type, status: is, lastTransitionTime }) => {
      const last = findCondition(before, type);
      return last?.status === is && last.lastTransitionTime !== lastTransitionTime;
    });
    return (
      wrong &&
      `the lastTransitionTime of ${metadata.name}'s condition ${wrong.type} has changed, but its status is still ${wrong.status}`
    );
  }
}
