import { type Condition, findCondition } from '@echoperator/runtime';
import type { ProxiedRequest } from '../proxied-request.ts';
import type { Scenario } from './scenario.ts';
import { canonicalNameIn } from './state.ts';

/** `patch echos hello/status` */
export function describe({ verb, resource, path }: ProxiedRequest, scenario: Scenario): string {
  const [, target = ''] = path.split(new RegExp(`/${resource}(?:/|$)`));
  return `${verb} ${resource} ${target
    .split('/')
    .map((part) => canonicalNameIn(scenario, part))
    .join('/')}`.trim();
}

/** `: Ready is False, NameTaken`, to append to a line of the timeline; empty for an object that reports nothing. */
export function readinessOf({ status }: { readonly status?: { readonly conditions?: readonly Condition[] } }): string {
  const ready = findCondition(status?.conditions, 'Ready');
  return ready === undefined ? '' : `: Ready is ${ready.status}, ${ready.reason}`;
}
