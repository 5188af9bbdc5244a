import type { Kind } from '../runtime/index.ts';

/** An RBAC rule: the verbs that a controller uses on some resources. */
export interface PolicyRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** Allows the verbs on a kind, or on a subresource of it. */
export const allow = (verbs: readonly string[], { group, plural }: Kind, subresource?: string): PolicyRule => ({
  apiGroups: [group],
  resources: [subresource === undefined ? plural : `${plural}/${subresource}`],
  verbs,
});

/**
 * Allows a controller to read the objects of its own kind, to write their status, and to own children. The owner reference of a
 * child sets `blockOwnerDeletion`, which the admission plugin OwnerReferencesPermissionEnforcement allows only with `update` on
 * the finalizers of the owner.
 */
export const allowOwning = (kind: Kind): readonly PolicyRule[] => [
  allow(['get', 'list', 'watch'], kind),
  allow(['patch'], kind, 'status'),
  allow(['update'], kind, 'finalizers'),
];
