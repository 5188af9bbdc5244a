import { createHash } from 'node:crypto';
import { PodSet } from '../../api/index.ts';
import { controllerReference, type Manifest } from '../../runtime/index.ts';
import type { Pod } from '../built-in-kinds.ts';
import { childName } from '../child-name.ts';

/** On a pod: which template it was made of. */
const templateHashLabel = 'app.example.com/template-hash';

/** What a label's value can hold. */
const maxLabelLength = 63;

/** The labels by which a PodSet finds its pods. */
export function podLabels({ metadata }: PodSet): Readonly<Record<string, string>> {
  return { app: childName(metadata.name, maxLabelLength), version: 'v0.1' };
}

/** As a list and an autoscaler take it. */
export const selectorOf = (set: PodSet): string =>
  Object.entries(podLabels(set))
    .map(([label, value]) => `${label}=${value}`)
    .join(',');

/** Whether the pod has the PodSet's labels. */
export const isSelected = (set: PodSet, { metadata }: Pod): boolean =>
  Object.entries(podLabels(set)).every(([label, value]) => metadata.labels?.[label] === value);

/**
 * What the pods of a PodSet without a template are. They fit the `restricted` Pod Security Standard and a quota on CPU and
 * memory. sleep, as a container's first process, does not hear SIGTERM: nothing is gained by waiting.
 */
const sleeper = {
  automountServiceAccountToken: false,
  enableServiceLinks: false,
  terminationGracePeriodSeconds: 1,
  securityContext: {
    runAsNonRoot: true,
    runAsUser: 65534,
    runAsGroup: 65534,
    seccompProfile: { type: 'RuntimeDefault' },
  },
  containers: [
    {
      name: 'busybox',
      image: 'busybox:1.36',
      imagePullPolicy: 'IfNotPresent',
      command: ['sleep', '3600'],
      securityContext: {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      },
      resources: { requests: { cpu: '10m', memory: '16Mi' }, limits: { cpu: '100m', memory: '32Mi' } },
    },
  ],
} as const;

/** The hash of no template, whatever the sleeper is in this release: another release rolls no pods. */
const sleeperHash = 'default';

/** Another template has another hash. */
export function templateHash({ spec: { template } }: PodSet): string {
  if (template === undefined) return sleeperHash;
  const { labels, annotations } = template.metadata ?? {};
  // The API server stores the fields of what it does not know in the order of their names: the text is always the same.
  const text = JSON.stringify([unlessEmpty(labels), unlessEmpty(annotations), template.spec]);
  return createHash('sha256').update(text).digest('hex').slice(0, 10);
}

const unlessEmpty = (map: object | undefined): object | undefined =>
  map === undefined || Object.keys(map).length === 0 ? undefined : map;

/** Whether the pod was made of the PodSet's present template. */
export const isUpdated = ({ metadata }: Pod, hash: string): boolean => metadata.labels?.[templateHashLabel] === hash;

/** Whether it was made of an earlier one. A pod that was adopted may be of none, and stays what it is. */
export const isOutdated = (pod: Pod, hash: string): boolean =>
  pod.metadata.labels?.[templateHashLabel] !== undefined && !isUpdated(pod, hash);

/** A new pod of a PodSet. */
export function newPod(set: PodSet, hash: string, name: string): Manifest<Pod> {
  const { template } = set.spec;
  const { annotations } = template?.metadata ?? {};
  return {
    metadata: {
      name,
      namespace: set.metadata.namespace ?? '',
      labels: { ...template?.metadata?.labels, ...podLabels(set), [templateHashLabel]: hash },
      ...(annotations && { annotations }),
      ownerReferences: [controllerReference(PodSet, set)],
    },
    // What a user wrote there nobody has checked yet: the API server does when it is sent.
    spec: (template?.spec as Pod['spec']) ?? sleeper,
  };
}

/** Whether it has ended for good, or is about to: it counts no more. */
export const isActive = ({ metadata, status }: Pod): boolean =>
  metadata.deletionTimestamp === undefined && status?.phase !== 'Succeeded' && status?.phase !== 'Failed';

type PodCondition = NonNullable<NonNullable<Pod['status']>['conditions']>[number];

export const readyCondition = ({ status }: Pod): PodCondition | undefined =>
  status?.conditions?.find(({ type }) => type === 'Ready');

export const isReady = (pod: Pod): boolean => readyCondition(pod)?.status === 'True';

/** Of a pod what this controller reads: there may be very many of them, and most are others'. */
export function withoutDetails(pod: Pod): Pod {
  const { status, spec } = pod;
  const { annotations } = pod.metadata;
  const cost = annotations?.[deletionCostAnnotation];
  return {
    ...pod,
    metadata: { ...pod.metadata, annotations: cost === undefined ? {} : { [deletionCostAnnotation]: cost } },
    spec: { containers: [], ...(spec?.nodeName !== undefined && { nodeName: spec.nodeName }) },
    status: {
      ...(status?.phase !== undefined && { phase: status.phase }),
      ...(status?.conditions && { conditions: status.conditions.filter(({ type }) => type === 'Ready') }),
      ...(status?.containerStatuses && {
        containerStatuses: status.containerStatuses.map(({ name, restartCount, ready }) => ({
          name,
          restartCount,
          ready,
          image: '',
          imageID: '',
        })),
      }),
    },
  };
}

/** How dear a pod is when some are to be deleted: the cheaper goes first (KEP-2255). */
export const deletionCostAnnotation = 'controller.kubernetes.io/pod-deletion-cost';
