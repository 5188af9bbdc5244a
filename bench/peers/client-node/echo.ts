import type { KubernetesObject, V1Condition, V1Job, V1ObjectMeta } from '@kubernetes/client-node';

/** The Echo resource as the API server stores it. */
export interface Echo extends KubernetesObject {
  metadata: V1ObjectMeta;
  spec: { message: string; ttlSecondsAfterFinished?: number };
  status?: EchoStatus;
}

export interface EchoStatus {
  phase?: string;
  jobName?: string;
  observedGeneration?: number;
  /** Dates are strings, as on the wire, because client-node does not deserialize custom resources. */
  conditions?: (Omit<V1Condition, 'lastTransitionTime'> & { lastTransitionTime: string })[];
}

export const echos = { group: 'mmontes.io', version: 'v1alpha1', plural: 'echos' } as const;
export const echoApiVersion = `${echos.group}/${echos.version}`;

const labels = { 'app.kubernetes.io/name': 'echo', 'app.kubernetes.io/managed-by': 'echoperator' };

/** Returns the same Job, field by field, as the other operators create. */
export function jobFor(echo: Echo, image: string): V1Job {
  const { name = '', namespace = '', uid = '', generation } = echo.metadata;
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name,
      namespace,
      labels,
      annotations: { 'mmontes.io/generation': String(generation) },
      ownerReferences: [
        { apiVersion: echoApiVersion, kind: 'Echo', name, uid, controller: true, blockOwnerDeletion: true },
      ],
    },
    spec: {
      ...(echo.spec.ttlSecondsAfterFinished !== undefined && {
        ttlSecondsAfterFinished: echo.spec.ttlSecondsAfterFinished,
      }),
      template: {
        metadata: { labels },
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
              command: ['printf', '%s\\n', echo.spec.message.replaceAll('$', '$$$$')],
              securityContext: {
                allowPrivilegeEscalation: false,
                readOnlyRootFilesystem: true,
                capabilities: { drop: ['ALL'] },
              },
              resources: { requests: { cpu: '10m', memory: '16Mi' }, limits: { memory: '64Mi' } },
            },
          ],
        },
      },
    },
  };
}
