import * as Type from 'typebox';
import { defineKind, type ObjectOf } from '../runtime/index.ts';

/** Prints a message each time that a schedule says so, by a CronJob. */
export const ScheduledEcho = defineKind({
  group: 'mmontes.io',
  version: 'v1alpha1',
  kind: 'ScheduledEcho',
  plural: 'scheduledechos',
  shortNames: ['sec'],
  description:
    'ScheduledEcho prints a message again and again: the operator keeps a CronJob whose pods write it to their log.',
  spec: Type.Object(
    {
      message: Type.String({
        minLength: 1,
        maxLength: 4096,
        pattern: '^[^\\x00]*$',
        description: 'What each pod prints, exactly as it stands here, followed by a line feed.',
      }),
      schedule: Type.String({
        description:
          'When to print, as a CronJob takes it: five fields of cron, such as "*/5 * * * *", or "@hourly". A schedule that the API server refuses leaves the last good one running, and the condition Ready says why.',
      }),
      timeZone: Type.Optional(
        Type.String({
          minLength: 1,
          description:
            'The time zone of the schedule, by its name in the tz database, such as "Europe/Madrid". Default: that of kube-controller-manager, which most often is UTC.',
        }),
      ),
      suspend: Type.Optional(
        Type.Boolean({
          description: 'Prints nothing while true. What is being printed is brought to its end. Default: false.',
        }),
      ),
    },
    { description: 'What to print, and when.' },
  ),
  status: Type.Object(
    {
      cronJobName: Type.Optional(Type.String({ description: 'The CronJob that prints the message.' })),
      active: Type.Optional(
        Type.Array(Type.String(), {
          'x-kubernetes-list-type': 'set',
          description: 'The Jobs that are printing it now.',
        }),
      ),
      lastScheduleTime: Type.Optional(
        Type.String({ format: 'date-time', description: 'The time for which the last Job was made.' }),
      ),
      lastSuccessfulTime: Type.Optional(
        Type.String({ format: 'date-time', description: 'When a Job last had printed the message.' }),
      ),
    },
    { description: 'What has come of it.' },
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
