/** Controllers: from a change to a key, from a key to a reconcile, from its result to the next one. */
export { type Claim, type ClaimOptions, claim } from './adoption.ts';
export {
  Controller,
  type ControllerEnvironment,
  type ControllerOptions,
  type Reconcile,
  type ReconcileContext,
} from './controller.ts';
export { type FinalizerOptions, finalizer } from './finalizer.ts';
export {
  and,
  annotationsChanged,
  deletion,
  generationChanged,
  labelsChanged,
  not,
  or,
  type Predicate,
  resourceVersionChanged,
} from './predicate.ts';
export { reportStatus } from './report-status.ts';
export { done, type Result, requeueAfter, TerminalError } from './result.ts';
export type { EventSource } from './source.ts';
export {
  type Attachment,
  type Enqueue,
  type InformerSource,
  owns,
  type Watch,
  type WatchFilter,
  watches,
} from './watch.ts';
