import { createHash, randomBytes } from 'node:crypto';
import { PodSet } from '../../api/index.ts';
import { controllerReference, type Manifest } from '../../runtime/index.ts';
import type { Pod } from '../built-in-kinds.ts';
import { childName } from '../child-name.ts';

/** On a pod: which template it was made of. */
const templateHashLabel = 'app.example.com/template-hash';

/** What a label's value can hold. */
const maxLabelLength = 63;

/** What a name can hold, less `-pod-` and the suffix. */
const maxNameLength = 253 - 10;

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

/** What the pods of a PodSet without a template are. */
const sleeper = {
  containers: [{ name: 'busybox', image: 'busybox:1.36', imagePullPolicy: 'IfNotPresent', command: ['sleep', '3600'] }],
} as const;

/** Another template has another hash. */
export function templateHash({ spec }: PodSet): string {
  // The API server stores the fields of what it does not know in the order of their names: the text is always the same.
  const template = JSON.stringify([spec.template?.metadata, spec.template?.spec ?? sleeper]);
  return createHash('sha256').update(template).digest('hex').slice(0, 10);
}

/** Whether the pod was made of the PodSet's present template. One that was adopted may be of none, and stays what it is. */
export function isUpdated({ metadata }: Pod, hash: string): boolean {
  const made = metadata.labels?.[templateHashLabel];
  return made === undefined || made === hash;
}

/** A new pod of a PodSet. Its name is chosen here, so that a look at it settles what a lost answer leaves open. */
export function newPod(set: PodSet, hash: string): Manifest<Pod> {
  const { name, namespace = '' } = set.metadata;
  const { template } = set.spec;
  return {
    metadata: {
      name: `${childName(name, maxNameLength)}-pod-${randomBytes(3).toString('hex').slice(0, 5)}`,
      namespace,
      labels: { ...template?.metadata?.labels, ...podLabels(set), [templateHashLabel]: hash },
      ...(template?.metadata?.annotations && { annotations: template.metadata.annotations }),
      ownerReferences: [controllerReference(PodSet, set)],
    },
    // What a user wrote there nobody has checked yet: the API server does when it is sent.
    spec: (template?.spec as Pod['spec']) ?? sleeper,
  };
}

/** Whether it has ended for good, or is about to: it counts no more. */
export const isActive = ({ metadata, status }: Pod): boolean =>
  metadata.deletionTimestamp === undefined && status?.phase !== 'Succeeded' && status?.phase !== 'Failed';

export const isReady = ({ status }: Pod): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;

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
