import type { Pod } from '../../built-in-kinds/built-in-kinds.ts';
import { type ContainerInstance, type ContainerStatus, findContainerStatus } from './container-instance.ts';

/** A `terminated` state: exit code, reason and termination message. */
type Termination = NonNullable<NonNullable<ContainerStatus['state']>['terminated']>;

/**
 * Reasons that do not come from an observed termination. The kubelet writes `ContainerStatusUnknown` if it finds no
 * container (status_manager.go and kubelet_pods.go in pkg/kubelet). containerd writes `Unknown` if it finds no task
 * after its own restart (restart.go in internal/cri/server).
 */
const unobservedReasons = ['ContainerStatusUnknown', 'Unknown'];

/**
 * The exit code that container runtimes report, with the reason `Error`, if they do not know the real one. containerd
 * does so when it cannot clean up after a dead shim (cleanupAfterDeadShim in core/runtime/v2). CRI-O does so when its
 * OCI runtime does not report the state (UpdateContainerStatus in internal/oci). So a process that really exits with
 * 255 is not recognized as ended.
 */
const unknownExitCode = 255;

/**
 * Whether the pod's status proves that this container instance, and so every process in it, has ended.
 *
 * Only a `terminated` state is proof. A deleted pod, its phase, its conditions and a lost node prove nothing.
 */
export function provesTermination(pod: Pod, container: ContainerInstance): boolean {
  return terminationsIn(pod, container).some(
    (termination) =>
      isOfInstance(termination, container) &&
      isObserved(termination) &&
      // A leader finds its containerId by `startedAt`, which has whole seconds, so it may have published the ID of an
      // earlier instance that ended in the same second. The token rules that out.
      (termination.message ?? '').includes(container.terminationToken),
  );
}

/**
 * Whether the pod's status proves that an earlier instance of the caller's own container has ended. The kubelet starts
 * an instance only after the one before it has ended, and kills one of unknown state first (computePodActions in
 * pkg/kubelet/kuberuntime). So it is enough that the status shows this instance terminated, or shows later ones.
 */
export function provesEarlierTermination(pod: Pod, container: ContainerInstance): boolean {
  const terminations = terminationsIn(pod, container);
  if (terminations.length === 0 || !terminations.every(isObserved)) return false;
  const currentId = findContainerStatus(pod, container.containerName)?.containerID;
  const showsLaterInstance = !!currentId && currentId !== container.containerId;
  return showsLaterInstance || terminations.some((termination) => isOfInstance(termination, container));
}

function terminationsIn(pod: Pod, { podUid, containerName }: ContainerInstance): readonly Termination[] {
  if (pod.metadata.uid !== podUid) return [];
  const { state, lastState } = findContainerStatus(pod, containerName) ?? {};
  return [state?.terminated, lastState?.terminated].filter((termination) => termination !== undefined);
}

const isOfInstance = (termination: Termination, { containerId }: ContainerInstance): boolean =>
  containerId !== '' && termination.containerID === containerId;

const isObserved = ({ reason, exitCode }: Termination): boolean =>
  !!reason && !unobservedReasons.includes(reason) && exitCode !== unknownExitCode;
