/**
 * `@echoperator/runtime/plan`: what the next version of an operator would do to a cluster, before it is installed.
 *
 * `planOperator` runs the controllers over the live cluster and sends each write as a dry run. `formatPlan` formats its
 * result for people, and `countChanges` finds out whether the result has a change of certain types.
 */
export { formatPlan } from './format-plan.ts';
export {
  type ChangeType,
  changeTypes,
  countChanges,
  defaultChangeTypes,
  type FieldChange,
  type Plan,
  type PlannedAction,
  type PlannedObject,
  type PlannedWrite,
  type PlanSelection,
} from './plan.ts';
export { PlanError } from './plan-error.ts';
export { type PlannedOperator, type PlanOptions, planOperator } from './plan-operator.ts';
