import { controllerReference } from '@echoperator/runtime';
import { CronJob } from '@echoperator/runtime/kinds';
import type { ScenarioWorld } from '@echoperator/testing';
import { scheduledEchoController } from '../../src/kinds/scheduled-echo/controller.ts';
import { ScheduledEcho } from '../../src/kinds/scheduled-echo/kind.ts';
import { cronJobKey } from '../../testkit/cron-job-key.ts';
import { podSettings } from '../../testkit/pod-settings.ts';
import { customManifest } from '../../testkit/with-reason.ts';
import type { KindPlans } from './kind-plans.ts';
import {
  addDefined,
  anew,
  createdWithChild,
  createUpdateDelete,
  name,
  remove,
  someJob,
  update,
} from './scenario-steps.ts';
import { valuesOfPodMetadata } from './values.ts';

const addScheduledEchos = addDefined(scheduledEchoController(podSettings));

/** A ScheduledEcho with this label has another operator. */
const earlierLeads = 'earlier-version-leads';

/** Plays an earlier version of the operator, whose CronJob has the name of the ScheduledEcho. */
async function createEarlierCronJob({ client, namespace }: ScenarioWorld): Promise<void> {
  const [owner] = (await client.list(ScheduledEcho, { namespace, labelSelector: earlierLeads })).items;
  const cronJobs = (await client.list(CronJob, { namespace })).items;
  if (owner === undefined || cronJobs.some(({ metadata }) => metadata.name === name)) return;
  const ownerReferences = [controllerReference(ScheduledEcho, owner)];
  const spec = { schedule: '1 1 1 1 *', jobTemplate: { spec: someJob } };
  await client.create(CronJob, { metadata: { name, namespace, ownerReferences }, spec });
}

const scheduledEchos = { kinds: [ScheduledEcho, CronJob], addControllers: addScheduledEchos };

const yearly = { message: 'one', schedule: '0 0 1 1 *' };

export const plans: KindPlans = {
  example: { message: 'hello', schedule: '0 * * * *' },
  subject: () => ({
    kind: ScheduledEcho,
    children: [CronJob],
    spec: { message: 'hello', schedule: '0 0 1 1 *' },
    values: {
      schedule: ['1 2 3 4 *', '@yearly', '* * *', '', 'TZ=UTC 0 0 1 1 *', '0 0 31 2 *'],
      timeZone: ['Europe/Madrid', 'Etc/UTC', 'Mars/Olympus', ''],
      ...valuesOfPodMetadata(''),
    },
  }),
  simulatedScenarios: [
    anew('scheduled-echo-suspended', scheduledEchos, ScheduledEcho, [yearly, { ...yearly, suspend: true }]),
    anew('scheduled-echo-zone', scheduledEchos, ScheduledEcho, [{ ...yearly, timeZone: 'Etc/UTC' }, yearly]),
  ],
  scenarios: () => [
    {
      name: 'scheduled-echo-name-taken',
      kinds: [ScheduledEcho, CronJob],
      restores: { delete: 'cron-job-created' },
      addControllers: addScheduledEchos,
      steps: {
        'cron-job-created': ({ client, namespace }) => {
          const spec = { schedule: '1 1 1 1 *', jobTemplate: { spec: someJob } };
          return client.create(CronJob, { metadata: cronJobKey({ name, namespace }), spec });
        },
        create: ({ client, namespace }) =>
          client.create(ScheduledEcho, customManifest({ name, namespace }, { message: 'one', schedule: '0 0 1 1 *' })),
        delete: ({ client, namespace }) => client.delete(ScheduledEcho, { name, namespace }),
        'all-deleted': async ({ client, namespace }) => {
          await client.deleteCollection(ScheduledEcho, { namespace });
          await client.delete(CronJob, cronJobKey({ name, namespace }));
        },
      },
    },
    {
      name: 'scheduled-echo',
      kinds: [ScheduledEcho, CronJob],
      restores: { 'cron-job-deleted': 'create', 'cron-job-edited': 'create' },
      addControllers: addScheduledEchos,
      steps: {
        create: ({ client, namespace }) =>
          client.create(ScheduledEcho, customManifest({ name, namespace }, { message: 'one', schedule: '0 0 1 1 *' })),
        'cron-job-deleted': ({ client, namespace }) => client.delete(CronJob, cronJobKey({ name, namespace })),
        'cron-job-edited': ({ client, namespace }) => {
          const body = { spec: { schedule: '1 1 1 1 *' } };
          return client.patch(CronJob, cronJobKey({ name, namespace }), { type: 'merge', body });
        },
        update: ({ client, namespace }) => {
          const spec = { message: 'two', schedule: '0 0 1 1 *' };
          return client.apply(ScheduledEcho, customManifest({ name, namespace }, spec), { force: true });
        },
        reschedule: update(ScheduledEcho, { message: 'two', schedule: '0 0 2 1 *', timeZone: 'Etc/UTC' }),
        suspend: update(ScheduledEcho, { message: 'two', schedule: '0 0 2 1 *', timeZone: 'Etc/UTC', suspend: true }),
        delete: ({ client, namespace }) => client.delete(ScheduledEcho, { name, namespace }),
      },
    },
    {
      name: 'scheduled-echo-of-two-versions',
      kinds: [ScheduledEcho, CronJob],
      meanwhile: createEarlierCronJob,
      addControllers: addScheduledEchos,
      steps: {
        create: ({ client, namespace }) =>
          client.create(ScheduledEcho, customManifest({ name, namespace }, { message: 'one', schedule: '0 0 1 1 *' })),
        'create-earlier-cron-job': async (world) => {
          const { client, namespace } = world;
          const body = { metadata: { labels: { [earlierLeads]: 'true' } } };
          await client.patch(ScheduledEcho, { name, namespace }, { type: 'merge', body });
          await createEarlierCronJob(world);
        },
        delete: ({ client, namespace }) => client.delete(ScheduledEcho, { name, namespace }),
      },
    },
    {
      name: 'scheduled-echo-in-motion',
      mayOmitWrites: true,
      kinds: [ScheduledEcho, CronJob],
      addControllers: addScheduledEchos,
      steps: {
        'create-update-delete': async (world) => {
          const [first, second] = [
            { message: 'one', schedule: '0 0 1 1 *' },
            { message: 'two', schedule: '0 0 2 1 *' },
          ];
          await createUpdateDelete(ScheduledEcho, [first, second])(world);
          await createdWithChild(ScheduledEcho, first, CronJob, world);
          await update(ScheduledEcho, second)(world);
          await remove(ScheduledEcho)(world);
        },
      },
    },
  ],
  permissionPlans: [
    'scheduled-echo/create',
    'scheduled-echo/cron-job-edited',
    'scheduled-echo-of-two-versions/create-earlier-cron-job',
  ],
  bugs: [
    {
      name: 'ScheduledEcho: a deleted CronJob is not noticed',
      file: 'src/kinds/scheduled-echo/controller.ts',
      find: 'owns: [{ kind: CronJob, deletes: true }],',
      replace: "owns: [{ kind: CronJob, deletes: true, predicate: ({ type }) => type !== 'deleted' }],",
      plans: { perturb: ['scheduled-echo/cron-job-deleted write 1 unsent'], explore: ['scheduled-echo'] },
    },
    {
      name: 'ScheduledEcho: the CronJob is created and never changed',
      file: 'src/kinds/scheduled-echo/controller.ts',
      find: 'const [cronJob] = await applyAll([child(CronJob, cronJobOf(echo, name, pod))], { prune: true });',
      replace:
        'const cronJob = get(CronJob, name) ?? (await applyAll([child(CronJob, cronJobOf(echo, name, pod))]))[0];',
      plans: { perturb: ['scheduled-echo/cron-job-edited write 1 unsent'], explore: ['scheduled-echo'] },
    },
    {
      name: 'ScheduledEcho: a second CronJob stays',
      file: 'src/kinds/scheduled-echo/controller.ts',
      find: '{ prune: true }',
      replace: '{ prune: false }',
      plans: { tests: ['kinds/scheduled-echo/scheduled-echo.test'] },
    },
    {
      name: 'ScheduledEcho: the status names a Job twice',
      file: 'src/kinds/scheduled-echo/controller.ts',
      find: '[...new Set(names)].sort()',
      replace: '[...names].sort()',
      plans: { tests: ['kinds/scheduled-echo/scheduled-echo.test'] },
    },
    {
      name: 'ScheduledEcho: the pods of the Jobs are not found',
      file: 'src/kinds/scheduled-echo/controller.ts',
      find: "activeJobs(cronJob).map(({ uid = '' }) => uid) }",
      replace: "activeJobs(cronJob).map(({ name = '' }) => name) }",
      plans: { tests: ['kinds/scheduled-echo/scheduled-echo.test'] },
    },
  ],
};
