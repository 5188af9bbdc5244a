import { createHash, randomBytes } from 'node:crypto';
import { PodSet } from '../../api/index.ts';
import { controllerReference, type Manifest } from '../../runtime/index.ts';
import type { Pod } from '../../runtime/kinds/index.ts';
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
 * The pod of a PodSet without a template. It fits the `restricted` Pod Security Standard and a quota on CPU and memory. As the
 * first process of a container, sleep does not react to SIGTERM: nothing is gained by waiting.
 */
const sleeper = (image: string) => ({
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
      image,
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
});

/** The hash of no template, whatever its pod is: neither another release nor another image rolls pods. */
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

/** Whether the pod was made of the PodSet's current template. */
export const isUpdated = ({ metadata }: Pod, hash: string): boolean => metadata.labels?.[templateHashLabel] === hash;

/** Whether the pod was made of an earlier template. A pod that was adopted may be of none; it is not replaced. */
export const isOutdated = (pod: Pod, hash: string): boolean =>
  pod.metadata.labels?.[templateHashLabel] !== undefined && !isUpdated(pod, hash);

/**
 * A new pod of a PodSet.
 *
 * @param image of the pod if the PodSet has no template.
 */
export function newPod(set: PodSet, hash: string, name: string, image: string): Manifest<Pod> {
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
    // Unchecked user input: the API server checks it when it is sent.
    spec: (template?.spec as Pod['spec']) ?? sleeper(image),
  };
}

/** Whether the pod counts as a replica: it has not ended and is not being deleted. */
export const isActive = ({ metadata, status }: Pod): boolean =>
  metadata.deletionTimestamp === undefined && status?.phase !== 'Succeeded' && status?.phase !== 'Failed';

/** What a name can hold, less `-pod-` and the suffix. */
const maxNameLength = 253 - 10;

/**
 * The names of new pods. They are chosen here and not by the API server, so that a get of a name settles what a lost answer
 * leaves open.
 *
 * @param tried names to use first: those of earlier requests that failed.
 */
export function podNames(
  { metadata }: PodSet,
  count: number,
  tried: readonly string[],
  isTaken: (name: string) => boolean,
): readonly string[] {
  const names = new Set(tried.filter((name) => !isTaken(name)).slice(0, count));
  const prefix = childName(metadata.name, maxNameLength);
  while (names.size < count) {
    const name = `${prefix}-pod-${randomBytes(3).toString('hex').slice(0, 5)}`;
    if (!isTaken(name)) names.add(name);
  }
  return [...names];
}
