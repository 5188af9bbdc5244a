import * as Type from 'typebox';
import { limits, qualifiedKeys } from './limits.ts';
import { templateHashLabel } from './pods.ts';

type Texts = Readonly<Record<string, string>>;

/** Labels and annotations of pods. */
export interface PodMetadata {
  readonly labels?: Texts;
  readonly annotations?: Texts;
}

/**
 * The labels by which the operator, its Services and the job controller find pods. Neither a spec nor a setting may set
 * them: a pod would serve another object, or be lost to its own.
 */
const reservedPodLabels: readonly string[] = [
  'app.kubernetes.io/name',
  'app.kubernetes.io/instance',
  'app.kubernetes.io/component',
  'app.kubernetes.io/managed-by',
  'batch.kubernetes.io/controller-uid',
  'batch.kubernetes.io/job-name',
  'controller-uid',
  'job-name',
];

/** The labels that the operator's settings may not set, because its PodSets find their pods by them too. */
export const reservedSettingsLabels: readonly string[] = [...reservedPodLabels, 'app', 'version', templateHashLabel];

const reserved = `['${reservedPodLabels.join("', '")}']`;

const ownLabels = {
  rule: `${reserved}.all(key, !(key in self))`,
  message: `the operator and Kubernetes set the labels ${reservedPodLabels.join(', ')}`,
  messageExpression: `'the operator or Kubernetes sets this label: ' + ${reserved}.filter(key, key in self).map(key, key + '=' + self[key])[0]`,
};

/** The field of a spec for the labels and annotations of the pods. */
export const podMetadata = Type.Optional(
  Type.Object(
    {
      labels: Type.Optional(
        Type.Record(
          Type.String(),
          Type.String({ maxLength: limits.labelValue, pattern: '^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$' }),
          {
            description: 'Additional labels of the pods.',
            maxProperties: limits.podMetadata,
            'x-kubernetes-validations': [qualifiedKeys, ownLabels],
          },
        ),
      ),
      annotations: Type.Optional(
        Type.Record(Type.String(), Type.String({ maxLength: limits.podAnnotationValue }), {
          description: 'Annotations of the pods.',
          maxProperties: limits.podMetadata,
          'x-kubernetes-validations': [qualifiedKeys],
        }),
      ),
    },
    {
      description:
        'Labels and annotations of the pods, for example to opt out of the injection of a sidecar. They win over those of the operator’s settings.',
    },
  ),
);

/**
 * The metadata of a pod.
 *
 * @param own labels that win over all others.
 * @param sources later ones win.
 */
export function podMetadataOf(own: Texts, ...sources: readonly (PodMetadata | undefined)[]) {
  const labels: Texts = Object.assign({}, ...sources.map((source) => source?.labels), own);
  const annotations: Texts = Object.assign({}, ...sources.map((source) => source?.annotations));
  return { labels, ...(Object.keys(annotations).length > 0 && { annotations }) };
}
