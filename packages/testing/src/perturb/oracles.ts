import { type Condition, findCondition, type KubeObject } from '@echoperator/runtime';
import type { StandardStatus } from '@echoperator/runtime/controller';
import type { Facts } from '../facts.ts';
import type { ObservedResponse } from '../fault-proxy.ts';
import type { ProxiedRequest } from '../proxied-request.ts';

/** The changes in some steps. */
export const changesIn = (steps: readonly string[], changes: Facts): Facts =>
  new Map([...changes].filter(([change]) => steps.some((step) => change.startsWith(`${step}: `))));

/** How often an operator has created and deleted each object, by step. */
export class ChangeCounts {
  /** The uids of the created and deleted objects, by `create: configmaps world created`. */
  readonly #uids = new Map<string, Set<string>>();
  /** What has been counted: `configmaps world created` and the uid. */
  readonly #counted = new Set<string>();

  get facts(): Facts {
    return new Map([...this.#uids].map(([change, uids]) => [change, uids.size]));
  }

  /** @param canonicalName replaces random parts of a name */
  record(
    { verb, resource }: ProxiedRequest,
    { status, body }: ObservedResponse,
    options: { canonicalName(name: string): string; readonly step: string; readonly isLastStep: boolean },
  ): void {
    if (status >= 300 || resource === 'events') return;
    const isDeletion = verb === 'delete';
    if (!isDeletion && status !== 201) return;
    // The operator may observe that a child is gone before it observes that its owner is, and create the child once
    // more.
    if (!isDeletion && options.isLastStep) return;
    const { metadata = {}, details = {} } = JSON.parse(body);
    const name = options.canonicalName(String(metadata.name ?? details.name));
    const uid = String(metadata.uid ?? details.uid);
    const change = `${resource} ${name} ${isDeletion ? 'deleted' : 'created'}`;
    // An object that terminates slowly may be deleted again, which changes nothing.
    if (this.#counted.has(`${change} ${uid}`)) return;
    this.#counted.add(`${change} ${uid}`);
    const inStep = `${options.step}: ${change}`;
    this.#uids.set(inStep, (this.#uids.get(inStep) ?? new Set()).add(uid));
  }
}

/** An object that may have conditions. */
export type ConditionedObject = KubeObject & { readonly status?: StandardStatus };

/** Whether `lastTransitionTime` of conditions changes only with their status. */
export class TransitionTimes {
  /** The last version of each object, by uid. */
  readonly #last = new Map<string, { readonly version: number; readonly conditions: readonly Condition[] }>();

  /**
   * Returns what is wrong. An ADDED event may be of a list, which skips what happened before. Several operators may
   * receive an event; each version counts once.
   */
  observe(eventType: string, { metadata, status }: ConditionedObject): string | undefined {
    const conditions = status?.conditions ?? [];
    const version = Number(metadata.resourceVersion);
    const last = this.#last.get(metadata.uid);
    if (last !== undefined && version <= last.version) return undefined;
    const before = eventType === 'MODIFIED' ? last?.conditions : undefined;
    this.#last.set(metadata.uid, { version, conditions });
    const wrong = conditions.find(({ type, status: is, lastTransitionTime }) => {
      const earlier = findCondition(before, type);
      return earlier?.status === is && earlier.lastTransitionTime !== lastTransitionTime;
    });
    return (
      wrong &&
      `the lastTransitionTime of ${metadata.name}'s condition ${wrong.type} has changed, but its status is still ${wrong.status}`
    );
  }
}
