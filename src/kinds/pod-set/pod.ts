import { createHash } from 'node:crypto';
import { type Child, childName } from '@echoperator/runtime/controller';
import type { Pod } from '@echoperator/runtime/kinds';
import { limits } from '../shared/limits.ts';
import type { PodDefaults } from '../shared/pod-defaults.ts';
import { podMetadataOf } from '../shared/pod-metadata.ts';
import { templateHashLabel } from '../shared/pods.ts';
import type { PodSet } from './kind.ts';

/** The longest value of a label. */
const maxLabelLength = 63;

/** The labels by which a PodSet finds its pods. */
export function podLabels({ metadata }: PodSet): Readonly<Record<string, string>> {
  return { app: childName(metadata.name, maxLabelLength), version: 'v0.1' };
}

/** The labels as a selector, in the syntax of list requests and of the scale subresource. */
export const selectorOf = (set: PodSet): string =>
  Object.entries(podLabels(set))
    .map(([label, value]) => `${label}=${value}`)
    .join(',');

/** Whether the pod has the PodSet's labels. */
export const isSelected = (set: PodSet, { metadata }: Pod): boolean =>
  Object.entries(podLabels(set)).every(([label, value]) => metadata.labels?.[label] === value);

/** Settings of the pods of a PodSet without a template. */
export interface DefaultPodSettings {
  /** The image. It must contain sleep. */
  readonly image: string;
  readonly podDefaults: PodDefaults;
}

/**
 * The pod spec of a PodSet without a template. It fits a quota on CPU and memory. The grace period is short because
 * sleep, as the first process of a container, ignores SIGTERM.
 */
const defaultPodSpec = ({ image, podDefaults }: DefaultPodSettings) => ({
  automountServiceAccountToken: false,
  enableServiceLinks: false,
  terminationGracePeriodSeconds: 1,
  ...podDefaults.spec,
  containers: [
    {
      name: 'busybox',
      image,
      imagePullPolicy: 'IfNotPresent',
      command: ['sleep', '3600'],
      ...podDefaults.container,
      resources: { requests: { cpu: '10m', memory: '16Mi' }, limits: { cpu: '100m', memory: '32Mi' } },
    },
  ],
});

/** The hash without a template. It is constant, so a new release or another setting does not replace the pods. */
const defaultTemplateHash = 'default';

/**
 * The hash of a PodSet's template. It changes with the template. Under an older CustomResourceDefinition the spec may
 * be missing.
 */
export function templateHash({ spec }: PodSet): string {
  const template = spec?.template;
  if (template === undefined) return defaultTemplateHash;
  const { labels, annotations } = template.metadata ?? {};
  // The API server sorts the fields of a schemaless object by name, so equal templates have equal texts.
  const text = JSON.stringify([unlessEmpty(labels), unlessEmpty(annotations), template.spec]);
  return createHash('sha256').update(text).digest('hex').slice(0, 10);
}

const unlessEmpty = (map: object | undefined): object | undefined =>
  map === undefined || Object.keys(map).length === 0 ? undefined : map;

/** What keeps the spec from being reconciled: the schema cannot bound the template. */
export function podSetProblem({ spec }: PodSet): string | undefined {
  const values: unknown[] = [spec.template?.spec];
  for (let next = 0; next < values.length; next += 1) {
    const value = values[next];
    if (typeof value !== 'object' || value === null) continue;
    for (const inner of Object.values(value)) values.push(inner);
    if (values.length - 1 > limits.templateValues)
      return `spec.template.spec has more than ${limits.templateValues} values`;
  }
  return undefined;
}

/** Whether the pod was created from the PodSet's current template. */
export const isUpdated = ({ metadata }: Pod, hash: string): boolean => metadata.labels?.[templateHashLabel] === hash;

/** Whether the pod was created from an earlier template. An adopted pod may have no template; it is not replaced. */
export const isOutdated = (pod: Pod, hash: string): boolean =>
  pod.metadata.labels?.[templateHashLabel] !== undefined && !isUpdated(pod, hash);

/**
 * A new pod of a PodSet.
 *
 * @param settings apply if the PodSet has no template.
 */
export function newPod(set: PodSet, hash: string, name: string, settings: DefaultPodSettings): Child<Pod> {
  const { template } = set.spec;
  const metadata = template === undefined ? settings.podDefaults.metadata : template.metadata;
  return {
    metadata: { name, ...podMetadataOf({ ...podLabels(set), [templateHashLabel]: hash }, metadata) },
    // The API server validates this user input.
    spec: (template?.spec as Pod['spec']) ?? defaultPodSpec(settings),
  };
}

/** Whether the pod counts as a replica: it has not ended and is not being deleted. */
export const isActive = ({ metadata, status }: Pod): boolean =>
  metadata.deletionTimestamp === undefined && status?.phase !== 'Succeeded' && status?.phase !== 'Failed';

/**
 * The longest name, less `-pod-` and the suffix. The kubelet makes a folder for the logs of a pod,
 * `<namespace>_<name>_<uid>`, and a file's name has at most 255 characters.
 */
const maxNameLength = 255 - 63 - 36 - 2 - 10;

/**
 * The names of new pods. The operator chooses them, not the API server, so that after a lost answer a get of the name
 * shows whether the pod was created.
 *
 * @param tried the names of earlier requests that failed. They are used first.
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
    // The global `crypto`: a simulation cannot seed the random numbers of `node:crypto`.
    const name = `${prefix}-pod-${crypto.randomUUID().slice(0, 5)}`;
    if (!isTaken(name)) names.add(name);
  }
  return [...names];
}
