/** The process: one call that puts all the parts together, and another that runs them until it is asked to stop. */
export type { LeaderElectionOptions } from './candidate.ts';
export { type ConnectOptions, connectOperator, type Operator } from './connect-operator.ts';
export { type HealthChecks, Liveness, type LivenessOptions } from './liveness.ts';
export { metricsRoute, probeRoutes } from './routes.ts';
export { type OperatorProcess, type RunOptions, runOperator } from './run-operator.ts';
export { type TerminableProcess, terminationSignal } from './termination-signal.ts';
