import type { Pod } from '../kinds/index.ts';
import type { HolderContainer } from './holder-container.ts';
import { type ContainerStatus, statusOfContainer } from './pod.ts';

/** That a container has ended: its exit code, why, and its own last words. */
type Termination = NonNullable<NonNullable<ContainerStatus['state']>['terminated']>;

/**
 * Reasons that nobody has seen: the kubelet writes the first where it finds no container any more (status_manager.go and
 * kubelet_pods.go in pkg/kubelet), containerd the second where it finds no task after its own restart (restart.go in
 * internal/cri/server).
 */
const inventedReasons = ['ContainerStatusUnknown', 'Unknown'];

/**
 * The exit code of a container of which the runtime has none: containerd where its shim has died and could not be cleaned
 * up after (cleanupAfterDeadShim in core/runtime/v2), CRI-O where its OCI runtime does not tell the state
 * (UpdateContainerStatus in internal/oci). Both call the reason `Error`. A process that ends with 255 of its own accord is
 * not believed either.
 */
const inventedExitCode = 255;

/**
 * Whether the pod's status proves that this very instance of a container has ended, and so every process in it: with the
 * first process of a PID namespace the kernel ends all others before anybody learns of it (pid_namespaces(7)).
 *
 * Anything else proves nothing: a pod that is gone, its phase, its conditions, a node that is lost.
 */
export function hasEnded(pod: Pod, container: HolderContainer): boolean {
  return terminationsIn(pod, container).some(
    (termination) =>
      isOf(termination, container) &&
      isSeen(termination) &&
      // startedAt, by which a container finds itself in the status, has whole seconds: the one that it took for itself may
      // be one before it that ended in the same second. But no instance has written another's token.
      (termination.message ?? '').includes(container.terminationToken),
  );
}

/**
 * Whether an instance of a container has ended that is known to be an earlier one than that which asks. The kubelet starts
 * a container only when it knows that the one before has ended, and kills first what it does not know the state of
 * (computePodActions in pkg/kubelet/kuberuntime). So it is enough that the status has come so far, and that none of what it
 * says was invented.
 */
export function hasEndedBefore(pod: Pod, container: HolderContainer): boolean {
  const terminations = terminationsIn(pod, container);
  if (terminations.length === 0 || !terminations.every(isSeen)) return false;
  const present = statusOfContainer(pod, container.containerName)?.containerID;
  return terminations.some((one) => isOf(one, container)) || (!!present && present !== container.containerId);
}

function terminationsIn(pod: Pod, { podUid, containerName }: HolderContainer): readonly Termination[] {
  if (pod.metadata.uid !== podUid) return [];
  const { state, lastState } = statusOfContainer(pod, containerName) ?? {};
  return [state?.terminated, lastState?.terminated].filter((termination) => termination !== undefined);
}

const isOf = (termination: Termination, { containerId }: HolderContainer): boolean =>
  containerId !== '' && termination.containerID === containerId;

const isSeen = ({ reason, exitCode }: Termination): boolean =>
  !!reason && !inventedReasons.includes(reason) && exitCode !== inventedExitCode;
