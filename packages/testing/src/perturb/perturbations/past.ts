import type { KubeObject } from '@echoperator/runtime';
import type { FaultProxy, ObservedResponse } from '../../fault-proxy.ts';
import { isList, isStreamedList, isWatch, type ProxiedRequest } from '../../proxied-request.ts';
import type { RunningOperator } from '../operator.ts';
import type { Check, WhereWritten } from './perturbation.ts';
import { Replied } from './replied.ts';

/**
 * Like `replied`, and the new operator gets the lists as they were before the step, and no events until it rests, as if
 * the API server's etcd were restored from a backup. The runtime's own lists are consistent reads, to which an API
 * server must not answer so.
 */
export class Past extends Replied {
  /** Not in scenarios with another system, whose writes have no precondition that fails in the past. */
  static appliesTo(_write: string, { scenario }: WhereWritten): boolean {
    return scenario.external === undefined && scenario.changesDefinitions !== true;
  }

  /** The operator has to correct what it did in the past. */
  readonly unchecked: readonly Check[] = ['always', 'changes', 'generations'];
  /** The version of the cluster before the step. */
  #version: string | undefined;

  async beforePlannedStep(): Promise<void> {
    const { scenario, world } = this.run;
    const [kind] = scenario.kinds;
    if (kind === undefined) return;
    const { metadata } = await world.client.list(kind, { namespace: world.namespace, limit: 1 });
    this.#version = metadata.resourceVersion;
  }

  /** A streamed list cannot be of an earlier version, so it is refused. */
  onStart(proxy: FaultProxy): void {
    if (this.#version === undefined) return;
    const faults = [
      proxy.inject({ type: 'error-response', status: 400, reason: 'BadRequest' }, { on: isStreamedList }),
      proxy.inject({ type: 'as-of', resourceVersion: this.#version }, { on: isList }),
      proxy.inject({ type: 'hold', expires: false }, { on: isWatch }),
    ];
    this.run.note(`the lists are of version ${this.#version}`);
    this.run.hold(() => {
      for (const fault of faults) fault.off();
    });
  }

  /** An operator in the past lists without a watch, so no events tell what it has received. */
  onList({ resource }: ProxiedRequest, { body }: ObservedResponse, operator: RunningOperator): void {
    const { scenario, world } = this.run;
    const kind = scenario.kinds.find(({ plural }) => plural === resource)?.kind;
    if (kind === undefined || this.#version === undefined) return;
    const { items }: { readonly items: readonly KubeObject[] } = JSON.parse(body);
    for (const { metadata } of items) {
      const { uid, resourceVersion, namespace } = metadata;
      // An operator that reconciles all namespaces also lists what earlier plans had left in theirs.
      if (namespace === world.namespace) operator.observed.set(uid, { kind, resourceVersion, isListed: true });
    }
  }
}
