/** A real Kubernetes cluster on one Linux machine, without Docker or an image registry, as a library and a command. */
export { addressesOfAllClusters } from './addresses.ts';
export { type AuditEvent, AuditLog, auditPolicy } from './audit-log.ts';
export { Cluster, type UpOptions } from './cluster.ts';
export type { ControlPlaneFlags, ControlPlaneProgram } from './control-plane-program.ts';
export { ClusterError, UnsupportedMachineError, UsageError } from './errors.ts';
export { clusterPrograms } from './programs.ts';
export { removeClusterOnExit, type Watchdog } from './watchdog.ts';
