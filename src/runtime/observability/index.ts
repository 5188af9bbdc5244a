/** Observability: what the operator tells of itself: log, metrics, Events, probes, and a record of its reconciles. */

export type { EventLimits } from './event-history.ts';
export { type EventNotice, EventRecorder, type EventRecorderOptions } from './event-recorder.ts';
export { type HttpServer, type Route, type RouteResponse, serve } from './http-server.ts';
export type { Logger } from './logger.ts';
export {
  type FailureKind,
  type FenceClosingReason,
  type LeaderObserver,
  Metrics,
  type ReconcileObserver,
  type ResultLabel,
  type TakeoverReason,
} from './metrics.ts';
export type {
  ControllerKeyState,
  ControllerObserver,
  ObservedController,
  OperatorObserver,
  QueuedKey,
  ReconcileTrace,
  RequestTrace,
  UnfinishedKey,
} from './observer.ts';
export { printable, printableLines } from './printable.ts';
