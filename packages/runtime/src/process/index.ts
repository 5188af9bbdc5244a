/**
 * `@echoperator/runtime/process`: the parts of the process that `runOperator` assembles.
 *
 * Import this entry to write your own `main`: `connectOperator` creates the operator. `probeRoutes` and `metricsRoute`
 * are routes for the kubelet and Prometheus, which `serve` serves. `terminationSignal` turns SIGTERM into an
 * AbortSignal. This entry also exports the types of the options of `runOperator`, the `Manager` and the
 * `EventRecorder`.
 */

export type { RequestTrace } from '../client/client.ts';
export type { FenceClosingReason, LeaderObserver, TakeoverReason } from '../leader-election/leader-observer.ts';
export { CacheSyncError } from '../manager/cache-sync-error.ts';
export type { ManagerContents, ManagerOptions, ManagerRunOptions, Readiness } from '../manager/manager.ts';
export type { EventLimits } from '../observability/event-history.ts';
export type { EventRecorderOptions } from '../observability/event-recorder.ts';
export { askForExplanation, type ExplainServer, serveExplanations } from '../observability/explain-socket.ts';
export type {
  Activity,
  ActivityQuery,
  ExplainedReconcile,
  ExplainedStep,
  ExplainQuery,
  ExplainResponse,
  Explanation,
} from '../observability/explanation.ts';
export { FlightRecorder } from '../observability/flight-recorder.ts';
export { type FormatExplanationOptions, formatExplanation } from '../observability/format-explanation.ts';
export { type HttpServer, type Route, type RouteResponse, serve } from '../observability/http-server.ts';
export { Metrics } from '../observability/metrics.ts';
export { printable, printableLines } from '../observability/printable.ts';
export type {
  ControllerKeyState,
  ControllerObserver,
  FailureKind,
  ObservedController,
  OperatorObserver,
  QueuedKey,
  ReconcileObserver,
  ReconcileTrace,
  ResultLabel,
  UnfinishedKey,
} from '../observer/operator-observer.ts';
export type { Cause, DeltaCause, PlainCause } from '../queue/cause.ts';
export type { KeyState, QueueObserver } from '../queue/work-queue.ts';
export type { LeaderElectionOptions, Leadership } from './candidate.ts';
export { type ConnectOptions, connectOperator } from './connect-operator.ts';
export { type HealthChecks, Liveness, type LivenessOptions } from './liveness.ts';
export type { OperatorService, RunningService } from './operator-service.ts';
export { metricsRoute, probeRoutes } from './routes.ts';
export type { OperatorProcess, RunOptions } from './run-operator.ts';
export type { ExplainOptions } from './start-explaining.ts';
export { type TerminableProcess, terminationSignal } from './termination-signal.ts';
