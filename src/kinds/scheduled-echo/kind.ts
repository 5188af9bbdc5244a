import { defineKind, type ObjectOf } from '@echoperator/runtime';
import * as Type from 'typebox';
import { limits } from '../shared/limits.ts';
import { podMetadata } from '../shared/pod-metadata.ts';

/** Prints a message on a schedule. A CronJob runs the pods. */
export const ScheduledEcho = defineKind({
  group: 'mmontes.io',
  version: 'v1alpha1',
  kind: 'ScheduledEcho',
  plural: 'scheduledechos',
  shortNames: ['sec'],
  description:
    'ScheduledEcho prints a message on a schedule: the operator keeps a CronJob, whose pods write the message to their log.',
  spec: Type.Object(
    {
      message: Type.String({
        minLength: 1,
        maxLength: 4096,
        pattern: '^[^\\x00]*$',
        description: 'The message. Each pod prints exactly this text and a line feed.',
      }),
      schedule: Type.String({
        // Each number of each field, separated by commas, takes 350 characters.
        maxLength: 1024,
        description:
          'When to print, as in a CronJob: five cron fields, such as "*/5 * * * *", or "@hourly". If the API server refuses the schedule, the CronJob keeps the last valid one and the condition Ready quotes the error.',
      }),
      timeZone: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: limits.name,
          description:
            'The time zone of the schedule: a name of the tz database, such as "Europe/Madrid". Default: the time zone of kube-controller-manager, usually UTC.',
        }),
      ),
      suspend: Type.Optional(
        Type.Boolean({
          description: 'Whether to start no new Job. Jobs that already run continue. Default: false.',
        }),
      ),
      podMetadata,
    },
    { description: 'The message and its schedule.' },
  ),
  status: Type.Object(
    {
      cronJobName: Type.Optional(
        Type.String({ maxLength: limits.name, description: 'The CronJob that prints the message.' }),
      ),
      active: Type.Optional(
        Type.Array(Type.String({ maxLength: limits.name }), {
          maxItems: limits.activeJobs,
          'x-kubernetes-list-type': 'set',
          description: 'The Jobs that have not finished, at most 1,000.',
        }),
      ),
      lastScheduleTime: Type.Optional(
        Type.String({
          format: 'date-time',
          maxLength: limits.time,
          description: 'The time for which the last Job was scheduled.',
        }),
      ),
      lastSuccessfulTime: Type.Optional(
        Type.String({ format: 'date-time', maxLength: limits.time, description: 'When a Job last completed.' }),
      ),
    },
    { description: 'The state of the CronJob.' },
  ),
  printerColumns: [
    { name: 'Schedule', type: 'string', jsonPath: '.spec.schedule' },
    { name: 'Suspend', type: 'boolean', jsonPath: '.spec.suspend' },
    { name: 'Ready', type: 'string', jsonPath: ".status.conditions[?(@.type=='Ready')].status" },
    { name: 'Last Schedule', type: 'date', jsonPath: '.status.lastScheduleTime' },
    { name: 'Reason', type: 'string', jsonPath: ".status.conditions[?(@.type=='Ready')].reason", priority: 1 },
    { name: 'Message', type: 'string', jsonPath: '.spec.message', priority: 1 },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
});

/** A ScheduledEcho as the API server stores it. */
export type ScheduledEcho = ObjectOf<typeof ScheduledEcho>;
