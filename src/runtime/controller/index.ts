/** Controllers: from a change to a key, from a key to a reconcile, from its result to the next one. */
export {
  Controller,
  type ControllerEnvironment,
  type ControllerOptions,
  type Reconcile,
  type ReconcileContext,
} from './controller.ts';
export { done, type Result, requeueAfter, TerminalError } from './result.ts';
export { type InformerSource, owns, type Watch, watches } from './watch.ts';
