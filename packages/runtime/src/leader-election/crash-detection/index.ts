/**
 * Crash detection: a standby learns that the process that holds a Lease has ended, and takes over before the Lease
 * expires.
 *
 * A leader publishes on its Lease which container it runs in, and writes a token into that container's termination
 * message. The standbys watch the leader's pod. When the pod's status shows that the container has terminated with that
 * token, the process is proven to have ended and its Lease is free.
 *
 * *Guarantees.* {@link PodCrashDetector.waitForEnd} resolves only if every process of the leader's container instance
 * has ended. Without proof it never resolves and the Lease expires as usual, so detection can only make a takeover
 * faster.
 *
 * *Assumptions.* The kubelet and the container runtime report terminations truthfully. Only the kubelet writes the
 * status of pods. etcd was not restored to a time before the pod was scheduled. Requests that the ended process has
 * already sent may still be executed, as after any other takeover.
 *
 * *Limits.* A lost node, a node without network, a deleted pod and a hanging process prove nothing. Detection is off in
 * static pods, in pods that share a PID namespace, where /proc is missing, and without permission to list and watch
 * pods.
 *
 * *Sources.* The first process of a PID namespace is reaped only after the kernel has killed all others
 * (pid_namespaces(7)). The kubelet creates an empty termination message file for each container instance (makeMounts in
 * pkg/kubelet/kuberuntime) and restarts a container only after the instance before it has ended (computePodActions,
 * same package).
 */

export type { CrashDetector } from './crash-detector.ts';
export { PodCrashDetector, type PodCrashDetectorOptions } from './pod-crash-detector.ts';
