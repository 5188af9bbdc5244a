import type { Kind } from '../runtime/index.ts';

/** A rule of a role, as RBAC has it: what a controller does with some resources. */
export interface PolicyRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** Verbs on a kind, or on a subresource of it. */
export const may = (verbs: readonly string[], { group, plural }: Kind, subresource?: string): PolicyRule => ({
  apiGroups: [group],
  resources: [subresource === undefined ? plural : `${plural}/${subresource}`],
  verbs,
});

/**
 * What every controller does with its own kind: it reads it and reports in its status. Children name it as the owner whose
 * deletion has to wait for them; some clusters allow that only to who may set the owner's finalizers (admission plugin
 * OwnerReferencesPermissionEnforcement).
 */
export const mayOwn = (kind: Kind): readonly PolicyRule[] => [
  may(['get', 'list', 'watch'], kind),
  may(['patch'], kind, 'status'),
  may(['update'], kind, 'finalizers'),
];
