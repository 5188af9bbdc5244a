/** Controllers: from a change to a key, from a key to a reconcile, from its result to the next one. */
export { type Claim, type ClaimOptions, claim } from './adoption.ts';
export { deleteIfPresent, isPredecessors } from './children.ts';
export {
  Controller,
  type ControllerEnvironment,
  type ControllerOptions,
  type Reconcile,
  type ReconcileContext,
} from './controller.ts';
export { type FinalizerOptions, finalizer, removeFinalizer } from './finalizer.ts';
export {
  defineReasons,
  desiredStatus,
  type Outcome,
  OutcomeReporter,
  type OutcomeReporterOptions,
  type Reason,
  type ReasonOf,
  type Reasons,
  type ReportingObject,
} from './outcome.ts';
export {
  and,
  annotationsChanged,
  deletion,
  generationChanged,
  ignoringConditionMessages,
  labelsChanged,
  not,
  or,
  type Predicate,
  resourceVersionChanged,
} from './predicate.ts';
export { isCurrent, reportStatus, writeStatus } from './report-status.ts';
export { done, type Result, requeueAfter, retry, TerminalError } from './result.ts';
export type { EventSource } from './source.ts';
export {
  type Attachment,
  type Enqueue,
  type InformerSource,
  type NamedChildren,
  type NamedChildrenOptions,
  owns,
  ownsByName,
  type Watch,
  type WatchFilter,
  watches,
} from './watch.ts';
