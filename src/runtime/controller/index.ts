/**
 * `@echoperator/runtime/controller`: parts of a controller that only some controllers need.
 *
 * Import this entry to adopt objects (`adoptAndRelease`), to write a status without an `OutcomeReporter` (`desiredStatus`,
 * `patchStatusIfPresent`), to enqueue keys from outside the cluster (`KeySource`), to write a `Watch` of your own, or to name
 * the types of the options that the root entry takes.
 */
export type { ApplyChildOptions } from '../apply/applier.ts';
export { compareQuantities } from '../apply/quantity.ts';
export type { DesiredCondition } from '../kind/condition.ts';
export { type DesiredStatus, statusPatch } from '../kind/status-patch.ts';
export type { ControllerHandle } from '../manager/manager.ts';
export type { EventNotice } from '../observability/event-recorder.ts';
export type { Priority } from '../queue/fair-queue.ts';
export type { RetryOptions } from '../queue/work-queue.ts';
export { adoptAndRelease, type Claim, type ClaimOptions } from './adoption.ts';
export { belongsToPredecessor } from './children.ts';
export type { FailedReconciles } from './controller.ts';
export { type CleanedUp, type FinalizerOptions, removeFinalizer } from './finalizer.ts';
export {
  commonReasons,
  currentReady,
  desiredStatus,
  type OutcomeReporterOptions,
  type Reason,
  type Reasons,
  type ReportingContext,
  type ReportingObject,
} from './outcome.ts';
export { isCurrent, patchStatusIfPresent } from './patch-status.ts';
export type { KeySource } from './source.ts';
export type {
  Attachment,
  Enqueue,
  InformerSource,
  NamedChildren,
  NamedChildrenOptions,
  OwnedKind,
  OwnedKinds,
  Watch,
  WatchFilter,
} from './watch.ts';
