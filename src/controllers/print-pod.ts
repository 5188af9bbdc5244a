import type { Job } from '../runtime/kinds/index.ts';

type PodTemplate = NonNullable<Job['spec']>['template'];

/**
 * A pod that prints the message, byte for byte, and a line feed.
 *
 * Two parties would read the message if it were handed to `echo` as it is: the kubelet expands `$(NAME)` in a
 * command's arguments, and echo takes `-n` and backslashes for its own. So each `$` is doubled, which the kubelet
 * turns back into one (k8s.io/kubernetes/third_party/forked/golang/expansion), and printf prints its second argument
 * unread.
 *
 * The pod fits the `restricted` Pod Security Standard.
 */
export function printPod(message: string, image: string): PodTemplate {
  return {
    metadata: { labels: podLabels },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: 65534,
        runAsGroup: 65534,
        seccompProfile: { type: 'RuntimeDefault' },
      },
      containers: [
        {
          name: 'echo',
          image,
          imagePullPolicy: 'IfNotPresent',
          command: ['printf', '%s\\n', message.replaceAll('$', '$$$$')],
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          },
          resources: { requests: { cpu: '10m', memory: '16Mi' }, limits: { memory: '64Mi' } },
        },
      ],
    },
  };
}

/** On everything that prints a message. */
export const podLabels = {
  'app.kubernetes.io/name': 'echo',
  'app.kubernetes.io/managed-by': 'echoperator',
} as const;
