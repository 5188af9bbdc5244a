import { Event, Lease } from '../built-in-kinds/built-in-kinds.ts';
import type { Kind } from '../kind/kind.ts';

/** An RBAC rule: the verbs that a controller uses on some resources. */
export interface PolicyRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  /** Absent: objects of any name. */
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** The order of the verbs in a rule. */
const verbOrder = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'];

/** Allows the verbs on a kind, or on a subresource of it. */
export const allow = (verbs: readonly string[], { group, plural }: Kind, subresource?: string): PolicyRule => ({
  apiGroups: [group],
  resources: [subresource === undefined ? plural : `${plural}/${subresource}`],
  verbs,
});

/** The rules for leader election, in the namespace of the Lease. */
export const leasePermissions: readonly PolicyRule[] = [allow(['get', 'list', 'watch', 'create', 'update'], Lease)];

/**
 * Merges rules: returns one rule per resource and names of objects, in the order in which the resources first appear, with the verbs of all
 * its rules.
 */
export function mergeRules(rules: Iterable<PolicyRule>): readonly PolicyRule[] {
  const verbs = new Map<string, { readonly rule: PolicyRule; readonly verbs: Set<string> }>();
  for (const { apiGroups, resources, resourceNames, verbs: added } of rules) {
    for (const group of apiGroups) {
      for (const resource of resources) {
        const id = `${group}/${resource} ${resourceNames?.join(',') ?? ''}`;
        const known = verbs.get(id) ?? {
          rule: { apiGroups: [group], resources: [resource], ...(resourceNames && { resourceNames }), verbs: [] },
          verbs: new Set<string>(),
        };
        for (const verb of added) known.verbs.add(verb);
        verbs.set(id, known);
      }
    }
  }
  return [...verbs.values()].map(({ rule, verbs: all }) => ({
    ...rule,
    verbs: [...all].sort((a, b) => verbOrder.indexOf(a) - verbOrder.indexOf(b)),
  }));
}

/**
 * The RBAC rules that these controllers need for their objects and for Events, in every namespace that they watch. They
 * contain nothing that the definitions do not need.
 *
 * Leader election needs {@link leasePermissions} too, in the namespace of the Lease.
 *
 * @example
 * const role = { metadata: { name: 'greeter' }, rules: permissions([greetings]) };
 */
export const permissions = (
  controllers: Iterable<{ readonly permissions: readonly PolicyRule[] }>,
): readonly PolicyRule[] =>
  mergeRules([...[...controllers].flatMap((controller) => controller.permissions), allow(['create', 'patch'], Event)]);
