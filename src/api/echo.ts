import * as Type from 'typebox';
import { defineKind, type ObjectOf } from '../runtime/index.ts';

/** Prints a message once per generation of its spec, by a Job of the same name. */
export const Echo = defineKind({
  group: 'mmontes.io',
  version: 'v1alpha1',
  kind: 'Echo',
  plural: 'echos',
  shortNames: ['ec'],
  description: 'Echo prints a message: the operator runs one Job whose pod writes it to its log.',
  spec: Type.Object(
    {
      message: Type.String({
        minLength: 1,
        maxLength: 4096,
        pattern: '^[^\\x00]*$',
        description:
          'What the pod prints, exactly as it stands here, followed by a line feed. A new message is printed by a new Job.',
      }),
      ttlSecondsAfterFinished: Type.Optional(
        Type.Integer({
          format: 'int32',
          minimum: 0,
          maximum: 2147483647,
          description:
            'Seconds after which the finished Job and its pod are deleted; left out, they stay as long as the Echo does.',
        }),
      ),
    },
    { description: 'What to print.' },
  ),
  status: Type.Object(
    {
      phase: Type.Optional(
        Type.Enum(['Pending', 'Running', 'Succeeded', 'Failed'], {
          description: 'Pending until the Job has a pod, Running until the pod has ended, then Succeeded or Failed.',
        }),
      ),
      jobName: Type.Optional(Type.String({ description: 'The Job that prints the message.' })),
      startTime: Type.Optional(Type.String({ format: 'date-time', description: 'When the Job started.' })),
      completionTime: Type.Optional(
        Type.String({ format: 'date-time', description: 'When the message had been printed.' }),
      ),
      completedGeneration: Type.Optional(
        Type.Integer({
          format: 'int64',
          minimum: 0,
          description:
            'The last generation whose message was printed. It is not printed again, even if its Job is deleted.',
        }),
      ),
    },
    { description: 'How far it is.' },
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
