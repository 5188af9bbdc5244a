/**
 * `@echoperator/runtime/controller`: parts of a controller that only some controllers need.
 *
 * Import this entry for one of these:
 *
 * - Adopt objects: `adoptAndRelease`.
 * - Name a child after an owner whose name may be too long for it: `childName`, `dotlessChildName`.
 * - Report what keeps a child from being written beside other conditions: `nameTakenOutcome`, `replacingOutcome`,
 *   `refusedOutcome`.
 * - Write a status without an `OutcomeReporter`: `desiredStatus`, `setCondition`, and `patchStatus` of the root entry.
 * - Compare quantities such as `2Gi`: `compareQuantities`.
 * - Find which required field an older object lacks: `missingField`.
 * - Enqueue keys from outside the cluster (`KeySource`), or write a `Watch` of your own.
 * - Limit how many operations run at a time, such as calls of an external system: `Semaphore`.
 * - Name the types of the options that the root entry takes.
 */
export type { ApplyChildOptions } from '../apply/applier.ts';
export { compareQuantities } from '../apply/quantity.ts';
export { type DesiredCondition, setCondition } from '../kind/condition.ts';
export {
  type CustomObject,
  type KindDefinition,
  type KindVersion,
  missingField,
  type PrinterColumn,
  type ScaleSubresource,
  type SentSchema,
  type StandardStatus,
  type ValidationRule,
} from '../kind/define-kind.ts';
export type { DesiredStatus } from '../kind/status-patch.ts';
export type { EventNotice } from '../observability/event-recorder.ts';
export type { Priority } from '../queue/fair-queue.ts';
export type { RetryOptions } from '../queue/work-queue.ts';
export { Semaphore } from '../shared/semaphore.ts';
export { type AdoptionOptions, type AdoptionResult, adoptAndRelease } from './adoption.ts';
export { childName, dotlessChildName, hashedChildName } from './child-name.ts';
export type { Child, Context, DesiredChild, Indexed, Lookup, Reads } from './context.ts';
export type { ControllerHandle, ControllerOptions, FailedReconciles } from './controller.ts';
export {
  type AddOptions,
  type CacheOptions,
  type ControllerHost,
  cache,
  type DefinedController,
} from './define-controller.ts';
export type {
  ControllerSettings,
  Definition,
  FinalizerDefinition,
  Index,
  OnlyMembers,
  Owned,
  Reference,
  Related,
  SetUp,
} from './definition.ts';
export type { CleanedUp, FinalizerOptions } from './finalizer.ts';
export {
  currentReady,
  desiredStatus,
  type Observation,
  type OutcomeReporterOptions,
  type Reason,
  type Reasons,
  type ReportingContext,
  type ReportingObject,
  type StandardReason,
  standardReasons,
} from './outcome.ts';
export { childManifest } from './owned-children.ts';
export { allow } from './permissions.ts';
export { type Ending, ReconcileEnd } from './reconcile-end.ts';
export type { KeySource } from './source.ts';
export { nameTakenOutcome, refusedOutcome, replacingOutcome } from './standard-outcomes.ts';
export type {
  Enqueue,
  EnqueueOptions,
  InformerSource,
  Watch,
  WatchFilter,
} from './watch.ts';
