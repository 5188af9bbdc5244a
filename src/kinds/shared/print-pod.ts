import type { Job } from '@echoperator/runtime/kinds';
import { type PodDefaults, type ResourceSettings, resourcesOf } from './pod-defaults.ts';
import { type PodMetadata, podMetadataOf } from './pod-metadata.ts';

type PodTemplate = NonNullable<Job['spec']>['template'];

/** Settings of {@link printPod}. */
export interface PrintPodSettings {
  /** The image of the pod. It must contain printf. */
  readonly image: string;
  readonly podDefaults: PodDefaults;
  readonly resources: ResourceSettings;
}

/** What a pod prints, and its labels and annotations. */
export interface PrintSpec {
  readonly message: string;
  readonly podMetadata?: PodMetadata;
}

/**
 * A pod that prints the message, byte for byte, and a line feed.
 *
 * With `echo MESSAGE`, two components would alter the message: the kubelet expands `$(NAME)` in the arguments of a
 * command, and echo interprets `-n` and backslashes. So each `$` is doubled, which the kubelet undoes
 * (k8s.io/kubernetes/third_party/forked/golang/expansion), and printf prints its second argument as it is.
 */
export function printPod(
  { message, podMetadata }: PrintSpec,
  { image, podDefaults, resources }: PrintPodSettings,
): PodTemplate {
  return {
    metadata: podMetadataOf(podLabels, podDefaults.metadata, podMetadata),
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      ...podDefaults.spec,
      containers: [
        {
          name: 'echo',
          image,
          imagePullPolicy: 'IfNotPresent',
          command: ['printf', '%s\\n', message.replaceAll('$', '$$$$')],
          ...podDefaults.container,
          resources: resourcesOf(resources),
        },
      ],
    },
  };
}

/** The labels of every object that prints a message. */
export const podLabels = {
  'app.kubernetes.io/name': 'echo',
  'app.kubernetes.io/managed-by': 'echoperator',
} as const;
