import type { Kind } from '../kind/kind.ts';

/**
 * What a planned write does:
 * - `create`, `change`, `delete`: to an object, except its status.
 * - `replace`: deletes an object that the reconcile would then create again.
 * - `reason`: changes a status and the reason of its condition `Ready`.
 * - `status`: changes a status, but not that reason.
 * - `refused`: the API server refuses the write, so it changes nothing.
 * - `none`: the write is sent and changes nothing.
 */
export type PlannedAction = 'create' | 'change' | 'delete' | 'replace' | 'reason' | 'status' | 'refused' | 'none';

/** A field that a planned write changes. */
export interface FieldChange {
  /** `spec.template.spec.containers[app].image` */
  readonly path: string;
  /**
   * Absent if the field did not exist. Both values are absent for a field of a Secret, and if one of them contains a
   * value of a Secret that the reconcile has read or written. A value of more than 1000 characters is an excerpt.
   */
  readonly before?: unknown;
  /** Absent if the field is removed, and like `before`. */
  readonly after?: unknown;
}

/** A write that the reconcile of an object would send. */
export interface PlannedWrite {
  readonly action: PlannedAction;
  /** The RBAC verb, except `apply`, which RBAC treats as `patch`. */
  readonly verb: string;
  readonly apiVersion: string;
  readonly kind: string;
  /** Absent for a cluster-scoped object. */
  readonly namespace?: string;
  readonly name: string;
  readonly subresource?: string;
  /** The changed fields of an existing object, up to 16,000 characters. Empty for `create` and `delete`. */
  readonly fields: readonly FieldChange[];
  /** What the dry run could not find out, why the API server refuses the write, or how many fields are left out. */
  readonly note?: string;
}

/** What the first reconcile of an object would do. */
export interface PlannedObject {
  readonly controller: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  /** In the order in which they would be sent. */
  readonly writes: readonly PlannedWrite[];
  /** The call of an external system with which the plan of this object ends. */
  readonly externalCall?: string;
  /** Why the plan of this object ends early: where a dry run cannot follow, or an error of the reconcile. */
  readonly incomplete?: string;
  /** What the object waits for after these writes, if its `Ready` is not True. */
  readonly waitsFor?: string;
}

/** The result of `planOperator`. */
export interface Plan {
  /** How many objects were reconciled. */
  readonly reconciled: number;
  readonly seconds: number;
  /** The objects for which the plan has a write, an external call, or an early end. */
  readonly objects: readonly PlannedObject[];
}

/** What `changesOf` can look for. `incomplete`: objects whose plan ends early. */
export type ChangeType = Exclude<PlannedAction, 'none'> | 'incomplete';

/** All types of changes. */
export const changeTypes: readonly ChangeType[] = [
  'create',
  'change',
  'delete',
  'replace',
  'reason',
  'status',
  'refused',
  'incomplete',
];

/**
 * The types that count as a change by default. A status with the same reason and a refused write do not count, because
 * they change nothing that a user would notice.
 */
export const defaultChangeTypes: readonly ChangeType[] = [
  'create',
  'change',
  'delete',
  'replace',
  'reason',
  'incomplete',
];

/** How many times the plan has a change of each of these types. External calls never count. */
export function countChanges({ objects }: Plan, types: readonly ChangeType[] = defaultChangeTypes): number {
  const wanted = new Set<string>(types);
  const writes = objects.flatMap((object) => object.writes).filter(({ action }) => wanted.has(action));
  const incomplete = wanted.has('incomplete') ? objects.filter((object) => object.incomplete !== undefined) : [];
  return writes.length + incomplete.length;
}

/** Limits a plan. */
export interface PlanSelection {
  /** Reconcile only objects of these namespaces. Default: all that the controllers watch. */
  readonly namespaces?: readonly string[] | undefined;
  /** Reconcile only objects of these kinds, by name in any case: `echo`. Default: all. */
  readonly kinds?: readonly string[] | undefined;
}

/** Whether a kind is selected. */
export const isSelected = ({ kinds }: PlanSelection, { kind, plural }: Kind): boolean =>
  kinds === undefined || kinds.some((name) => [kind.toLowerCase(), plural].includes(name.toLowerCase()));
