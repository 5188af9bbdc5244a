/**
 * Leader election: of several processes one leads, by a Lease of the API server, as client-go's candidates do and together
 * with them. Beyond those: standbys watch, so that a handover takes milliseconds, and a fence keeps a leader that lost
 * touch from beginning another request.
 */

export { LeadershipLostError, NotLeadingError } from './errors.ts';
export { Fence } from './fence.ts';
export type { HolderContainer, HolderContainers } from './holder-container.ts';
export { LeaderElector, type LeaderElectorOptions } from './leader-elector.ts';
export { PodContainers, type PodContainersOptions } from './pod-containers.ts';
export { checkedTimings, defaultTimings, type LeaseTimings } from './timings.ts';
