/**
 * Leader election: of several processes that contend for a Lease of the API server, one leads. The protocol is
 * client-go's, so candidates in Go may contend for the same Lease.
 *
 * In addition to client-go: standbys watch the Lease, so that a handover takes milliseconds; a fence stops a leader
 * that lost contact from beginning another request; and crash detection (its own part) frees the Lease of a crashed
 * leader early.
 */

export * from './crash-detection/index.ts';
export { LeadershipLostError, NotLeadingError } from './errors.ts';
export { Fence } from './fence.ts';
export { LeaderElector, type LeaderElectorOptions } from './leader-elector.ts';
export { Lease } from './lease.ts';
export { defaultTimings, type LeaseTimings, validateTimings } from './timings.ts';
