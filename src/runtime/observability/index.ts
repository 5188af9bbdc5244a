/** Observability: what the operator tells of itself: log, metrics, Events, probes. */
export { type EventNotice, EventRecorder, type EventRecorderOptions } from './event-recorder.ts';
export type { EventSubjectsOptions } from './event-subjects.ts';
export { type Answer, type Listening, type Route, serve } from './http-server.ts';
export type { Logger } from './logger.ts';
export {
  type LeaderObserver,
  Metrics,
  type ReconcileFailure,
  type ReconcileObserver,
  type ReconcileOutcome,
} from './metrics.ts';
