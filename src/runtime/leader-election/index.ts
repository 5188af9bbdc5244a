/**
 * `@echoperator/runtime/leader-election`: one of several processes leads, by a Lease, as client-go's candidates do and
 * together with them. Standbys watch the Lease, so a handover takes milliseconds. A fence stops the requests of a leader
 * that has lost its Lease.
 *
 * An operator needs only the option `leaderElection` of `runOperator`. Import this entry to name its timings and its
 * errors, to detect a crashed leader before its Lease expires, or to use a `LeaderElector` without an operator.
 */
export { LeadershipLostError, NotLeadingError } from './errors.ts';
export type { HolderContainer, HolderContainers } from './holder-container.ts';
export { LeaderElector, type LeaderElectorOptions } from './leader-elector.ts';
export { Lease } from './lease.ts';
export { PodContainers, type PodContainersOptions } from './pod-containers.ts';
export { checkedTimings, defaultTimings, type LeaseTimings } from './timings.ts';
