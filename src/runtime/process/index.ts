/**
 * `@echoperator/runtime/process`: the parts of the process that `runOperator` puts together.
 *
 * Import this entry to write a `main` of your own: `connectOperator` makes the operator, `probeRoutes` and `metricsRoute`
 * answer the kubelet and Prometheus over `serve`, `untilTerminated` turns SIGTERM into an AbortSignal. It also names the
 * types of the options of `runOperator`, the `Manager` and the `EventRecorder`.
 */
export { CacheSyncError } from '../manager/cache-sync-error.ts';
export type { ManagerOptions, ManagerRunOptions, Readiness } from '../manager/manager.ts';
export type { EventRecorderOptions } from '../observability/event-recorder.ts';
export type { EventSubjectsOptions } from '../observability/event-subjects.ts';
export { type Answer, type Listening, type Route, serve } from '../observability/http-server.ts';
export {
  type LeaderObserver,
  Metrics,
  type ReconcileFailure,
  type ReconcileObserver,
  type ReconcileOutcome,
} from '../observability/metrics.ts';
export type { QueueObserver } from '../queue/work-queue.ts';
export type { LeaderElectionOptions } from './candidate.ts';
export { type ConnectOptions, connectOperator } from './connect-operator.ts';
export { type HealthChecks, Liveness, type LivenessOptions } from './liveness.ts';
export { metricsRoute, probeRoutes } from './routes.ts';
export type { OperatorProcess, RunOptions } from './run-operator.ts';
export { type Terminable, untilTerminated } from './termination.ts';
