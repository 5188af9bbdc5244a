import { defineKind, type ObjectOf } from '@echoperator/runtime';
import * as Type from 'typebox';
import { limits, qualifiedKeys } from '../shared/limits.ts';

const texts = (description: string, maxLength: number, rules: readonly object[] = []) =>
  Type.Optional(
    Type.Record(Type.String(), Type.String({ maxLength }), {
      description,
      maxProperties: limits.labels,
      'x-kubernetes-validations': [qualifiedKeys, ...rules],
    }),
  );

/** The operator sets these labels on each pod, so a template must not. */
const ownLabels = {
  rule: "!('app' in self || 'version' in self || 'app.example.com/template-hash' in self)",
  message: 'the labels app, version and app.example.com/template-hash are set by the operator',
};

/** Keeps a number of pods running. */
export const PodSet = defineKind({
  group: 'app.example.com',
  version: 'v1alpha1',
  kind: 'PodSet',
  plural: 'podsets',
  shortNames: ['pset'],
  description: 'PodSet keeps a number of identical pods running, like a ReplicaSet.',
  spec: Type.Object(
    {
      replicas: Type.Integer({
        format: 'int32',
        minimum: 0,
        maximum: limits.pods,
        description: 'The desired number of pods, up to 5,000.',
      }),
      template: Type.Optional(
        Type.Object(
          {
            metadata: Type.Optional(
              Type.Object(
                {
                  labels: texts('Additional labels of the pods.', limits.labelValue, [ownLabels]),
                  annotations: texts('Annotations of the pods.', limits.annotationValue),
                },
                {
                  description:
                    'Labels and annotations of the pods. The operator adds the labels `app`, `version` and `app.example.com/template-hash`.',
                },
              ),
            ),
            spec: Type.Unsafe<Readonly<Record<string, unknown>>>({
              type: 'object',
              // Has no bound: see `templateProblem`. No rule can read what the schema does not name, and the API server
              // tolerates no stored excess of `maxProperties` here: it would refuse each write of the status.
              'x-kubernetes-preserve-unknown-fields': true,
              // Otherwise `managedFields` repeats each level, four levels deeper: the API server stores what it cannot
              // decode, and lists no PodSet any more.
              'x-kubernetes-map-type': 'atomic',
              properties: {
                restartPolicy: {
                  type: 'string',
                  enum: ['Always'],
                  description:
                    'Always, which is also the default, as in a ReplicaSet. Use a Job for pods that complete.',
                },
              },
              description:
                'The spec of each pod: see `kubectl explain pod.spec`. The API server validates it when the operator creates a pod, and refuses unknown fields.',
            }),
          },
          {
            description:
              'The template of each pod. If it changes, the operator replaces the pods one by one, each when all pods of the new template are ready. Default: a busybox container that sleeps for an hour and is then restarted.',
          },
        ),
      ),
    },
    { description: 'The number of pods and their template.' },
  ),
  status: Type.Object(
    {
      replicas: Type.Optional(
        Type.Integer({ format: 'int32', minimum: 0, description: 'The number of pods that have not ended.' }),
      ),
      readyReplicas: Type.Optional(
        Type.Integer({ format: 'int32', minimum: 0, description: 'The number of pods that are ready.' }),
      ),
      updatedReplicas: Type.Optional(
        Type.Integer({ format: 'int32', minimum: 0, description: 'The number of pods of the current template.' }),
      ),
      podNames: Type.Optional(
        Type.Array(Type.String({ maxLength: limits.name }), {
          maxItems: limits.pods,
          description: 'The names of the pods, sorted: the first 5,000.',
          'x-kubernetes-list-type': 'atomic',
        }),
      ),
      selector: Type.Optional(Type.String({ maxLength: 1024, description: 'The label selector of the pods.' })),
    },
    { description: 'The observed pods.' },
  ),
  printerColumns: [
    { name: 'Desired', type: 'integer', jsonPath: '.spec.replicas' },
    { name: 'Current', type: 'integer', jsonPath: '.status.replicas' },
    { name: 'Ready', type: 'integer', jsonPath: '.status.readyReplicas' },
    { name: 'Reason', type: 'string', jsonPath: ".status.conditions[?(@.type=='Ready')].reason" },
    { name: 'Selector', type: 'string', jsonPath: '.status.selector', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  scale: {
    specReplicasPath: '.spec.replicas',
    statusReplicasPath: '.status.replicas',
    labelSelectorPath: '.status.selector',
  },
});

/** A PodSet as the API server stores it. */
export type PodSet = ObjectOf<typeof PodSet>;
