import { defineKind, type ObjectOf } from '@echoperator/runtime';
import * as Type from 'typebox';
import { limits } from '../shared/limits.ts';
import { podMetadata } from '../shared/pod-metadata.ts';

/** Prints a message once per generation of its spec. A Job of the same name prints it. */
export const Echo = defineKind({
  group: 'mmontes.io',
  version: 'v1alpha1',
  kind: 'Echo',
  plural: 'echos',
  shortNames: ['ec'],
  description: 'Echo prints a message: the operator runs one Job, whose pod writes the message to its log.',
  spec: Type.Object(
    {
      message: Type.String({
        minLength: 1,
        maxLength: 4096,
        pattern: '^[^\\x00]*$',
        description:
          'The message. The pod prints exactly this text and a line feed. If the message changes, a new Job prints the new one.',
      }),
      ttlSecondsAfterFinished: Type.Optional(
        Type.Integer({
          format: 'int32',
          minimum: 0,
          maximum: 2147483647,
          description:
            'Seconds after which Kubernetes deletes the finished Job and its pod. Default: they exist as long as the Echo.',
        }),
      ),
      podMetadata,
    },
    { description: 'The message, and how long its Job is kept.' },
  ),
  status: Type.Object(
    {
      phase: Type.Optional(
        Type.Enum(['Pending', 'Running', 'Succeeded', 'Failed'], {
          description:
            'Pending until the Job has an active pod, Running until the Job has finished, then Succeeded or Failed.',
        }),
      ),
      jobName: Type.Optional(Type.String({ maxLength: limits.name, description: 'The Job that prints the message.' })),
      startTime: Type.Optional(
        Type.String({ format: 'date-time', maxLength: limits.time, description: 'When the Job started.' }),
      ),
      completionTime: Type.Optional(
        Type.String({ format: 'date-time', maxLength: limits.time, description: 'When the Job completed.' }),
      ),
      completedGeneration: Type.Optional(
        Type.Integer({
          format: 'int64',
          minimum: 0,
          description:
            'The last generation whose message was printed. The operator does not print it again, even if the Job is deleted.',
        }),
      ),
    },
    { description: 'The state of the Job.' },
  ),
  printerColumns: [
    { name: 'Message', type: 'string', jsonPath: '.spec.message' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Reason', type: 'string', jsonPath: ".status.conditions[?(@.type=='Ready')].reason", priority: 1 },
    { name: 'Job', type: 'string', jsonPath: '.status.jobName', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
});

/** An Echo as the API server stores it. */
export type Echo = ObjectOf<typeof Echo>;
