import * as Type from 'typebox';
import { defineKind, type ObjectOf } from '../runtime/index.ts';

const texts = (description: string, rules: object = {}) =>
  Type.Optional(Type.Record(Type.String(), Type.String(), { description, ...rules }));

/** Set on each pod by the operator, which would put its own in their place. */
const ownLabels = {
  'x-kubernetes-validations': [
    {
      rule: "!('app' in self || 'version' in self || 'app.example.com/template-hash' in self)",
      message: 'the labels app, version and app.example.com/template-hash are set by the operator',
    },
  ],
};

/** Keeps so many pods running. */
export const PodSet = defineKind({
  group: 'app.example.com',
  version: 'v1alpha1',
  kind: 'PodSet',
  plural: 'podsets',
  shortNames: ['pset'],
  description: 'PodSet keeps a number of like pods running, as a ReplicaSet does.',
  spec: Type.Object(
    {
      replicas: Type.Integer({
        format: 'int32',
        minimum: 0,
        // The status names each of them, and an object of 1.5 MiB is as much as etcd takes.
        maximum: 5000,
        description: 'How many pods there are to be, 5,000 at the most.',
      }),
      template: Type.Optional(
        Type.Object(
          {
            metadata: Type.Optional(
              Type.Object(
                {
                  labels: texts('Further labels of the pods.', ownLabels),
                  annotations: texts('Annotations of the pods.'),
                },
                {
                  description: 'What the pods carry besides the labels `app` and `version`, which are the operator’s.',
                },
              ),
            ),
            spec: Type.Unsafe<Readonly<Record<string, unknown>>>({
              type: 'object',
              'x-kubernetes-preserve-unknown-fields': true,
              properties: {
                restartPolicy: {
                  type: 'string',
                  enum: ['Always'],
                  description:
                    'Default: Always, and nothing else, as in a ReplicaSet. For pods that end there are Jobs.',
                },
              },
              description:
                'The pods, as `kubectl explain pod.spec` has them. The API server checks it when a pod is made, and refuses fields that it does not know.',
            }),
          },
          {
            description:
              'What each pod is. Another template replaces the pods one by one, each when all others are ready. Default: a busybox that sleeps for an hour at a time.',
          },
        ),
      ),
    },
    { description: 'How many pods, and which.' },
  ),
  status: Type.Object(
    {
      replicas: Type.Optional(
        Type.Integer({ format: 'int32', minimum: 0, description: 'How many pods there are that have not ended.' }),
      ),
      readyReplicas: Type.Optional(
        Type.Integer({ format: 'int32', minimum: 0, description: 'How many of them are ready.' }),
      ),
      updatedReplicas: Type.Optional(
        Type.Integer({ format: 'int32', minimum: 0, description: 'How many of them are of the present template.' }),
      ),
      podNames: Type.Optional(
        Type.Array(Type.String(), { description: 'Their names, sorted.', 'x-kubernetes-list-type': 'atomic' }),
      ),
      selector: Type.Optional(Type.String({ description: 'The label selector that finds them.' })),
    },
    { description: 'How many pods there are.' },
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
