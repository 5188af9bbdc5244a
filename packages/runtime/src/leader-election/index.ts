/**
 * `@echoperator/runtime/leader-election`: of several processes that contend for a Lease of the API server, one leads.
 * The protocol is client-go's, so candidates in Go may contend for the same Lease. Standbys watch the Lease, so a
 * handover takes milliseconds. A fence stops the requests of a leader that has lost its Lease.
 *
 * An operator needs only the option `leaderElection` of `runOperator`. Import this entry to name its timings and its
 * errors, to detect a crashed leader before its Lease expires, or to use a `LeaderElector` without an operator.
 */
export type { CrashDetector } from './crash-detection/crash-detector.ts';
export { PodCrashDetector, type PodCrashDetectorOptions } from './crash-detection/crash-detector.ts';
export { LeadershipLostError, NotLeadingError, ScopeTakenError } from './errors.ts';
export { LeaderElector, type LeaderElectorOptions } from './leader-elector.ts';
export type { LeaseMetadata } from './lease.ts';
export type { OperatorScope } from './scope-check.ts';
export { type LeaseTimings, validateTimings } from './timings.ts';
