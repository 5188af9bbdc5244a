/** A real Kubernetes cluster on one Linux machine, without Docker or an image registry, as a library and a command. */
export { addressesOfAllClusters } from './addresses.ts';
export { type AuditEvent, AuditLog, auditPolicy } from './audit-log.ts';
export { Cluster } from './cluster.ts';

export { ClusterError, UnsupportedMachineError, UsageError } from './errors.ts';
export { clusterPrograms } from './programs.ts';
export { removeClusterOnExit, type Watchdog } from './watchdog.ts';
