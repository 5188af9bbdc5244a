import { Job } from '@echoperator/runtime/kinds';
import { eventually } from '@echoperator/testing';
import { echoController } from '../../src/kinds/echo/controller.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
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

const addEchos = addDefined(echoController(podSettings));

export const plans: KindPlans = {
  example: { message: 'hello' },
  subject: () => ({
    kind: Echo,
    children: [Job],
    spec: { message: 'hello' },
    values: valuesOfPodMetadata(''),
    // The status is not ours.
    mayDiffer: (path) => path.endsWith('.annotations.mmontes.io/generation') || /^Job .* #1\.status\./.test(path),
  }),
  simulatedScenarios: [
    anew('echo', { kinds: [Echo, Job], addControllers: addEchos }, Echo, [{ message: 'one' }, { message: 'two' }]),
  ],
  scenarios: (cluster) => [
    {
      name: 'echo',
      kinds: [Echo, Job],
      restores: { 'job-deleted': 'create' },
      addControllers: addEchos,
      steps: {
        create: ({ client, namespace }) => client.create(Echo, customManifest({ name, namespace }, { message: 'one' })),
        'job-deleted': ({ client, namespace }) => client.delete(Job, { name, namespace }),
        'job-edited': ({ client, namespace }) => {
          const body = { metadata: { labels: { edited: 'true' } }, spec: { suspend: true } };
          return client.patch(Job, { name, namespace }, { type: 'merge', body });
        },
        update: update(Echo, { message: 'two', ttlSecondsAfterFinished: 3600 }),
        print: ({ namespace }) => cluster.endPods({ name, namespace }),
        delete: ({ client, namespace }) => client.delete(Echo, { name, namespace }),
      },
    },
    {
      name: 'echo-name-taken',
      kinds: [Echo, Job],
      restores: { delete: 'job-created' },
      addControllers: addEchos,
      steps: {
        'job-created': ({ client, namespace }) => client.create(Job, { metadata: { name, namespace }, spec: someJob }),
        create: ({ client, namespace }) => client.create(Echo, customManifest({ name, namespace }, { message: 'one' })),
        delete: ({ client, namespace }) => client.delete(Echo, { name, namespace }),
        'all-deleted': async ({ client, namespace }) => {
          await client.deleteCollection(Echo, { namespace });
          await client.delete(Job, { name, namespace }, { propagationPolicy: 'Background' });
        },
      },
    },
    {
      name: 'echo-in-motion',
      mayOmitWrites: true,
      kinds: [Echo, Job],
      addControllers: addEchos,
      steps: {
        'create-update-delete': async (world) => {
          // Without an update: the operator would delete the Job only if it exists yet.
          await createUpdateDelete(Echo, [{ message: 'one' }])(world);
          const { uid } = await createdWithChild(Echo, { message: 'two' }, Job, world);
          await update(Echo, { message: 'three' })(world);
          const { client, namespace } = world;
          await eventually('the Job is being replaced', async () => {
            const { items } = await client.list(Job, { namespace });
            return !items.some(({ metadata }) => metadata.uid === uid && metadata.deletionTimestamp === undefined);
          });
          await remove(Echo)(world);
        },
      },
    },
  ],
  permissionPlans: ['echo/create', 'echo/update'],
  bugs: [
    {
      name: 'Echo: the Job of an earlier message stays',
      file: 'src/kinds/echo/echo-job.ts',
      find: 'return job.metadata.annotations?.[generationAnnotation] === String(echo.metadata.generation);',
      replace: 'return true;',
      plans: { mutate: ['Echo/message'], explore: ['echo-anew'] },
    },
    {
      name: 'Echo: a Job is replaced although the cached Echo may be stale',
      file: 'src/kinds/echo/controller.ts',
      find: 'if (!(await isCurrent())) return undefined;',
      replace: '',
      plans: { tests: ['kinds/echo/echo.test'] },
    },
    {
      name: 'Echo: the Job has no owner',
      file: 'packages/runtime/src/controller/owned-children.ts',
      find: 'const metadata = { ...place, ...child.metadata, ownerReferences: references };',
      replace: 'const metadata = { ...place, ...child.metadata };',
      plans: { perturb: ['echo/delete write 1 unsent'], explore: ['echo'] },
    },
    {
      // Its pods still are, so the plan must have an event that only the Job tells.
      name: 'Echo: its Job is not watched',
      file: 'src/kinds/echo/controller.ts',
      find: "write: 'create',",
      replace: "write: 'create', predicate: () => false,",
      plans: { perturb: ['echo/print write 1 unsent'], explore: ['echo'] },
    },
    {
      name: 'Echo: the Job of another owner is taken for its own',
      file: 'packages/runtime/src/controller/owned-children.ts',
      find: 'throw new ReconcileEnd(nameTakenOutcome({ kind: ownerKind, object: owner() }, kind, applied.holder));',
      replace: 'return applied.holder;',
      plans: { perturb: ['echo-name-taken'], explore: ['echo-name-taken'] },
    },
    {
      name: 'Echo: a Job that has completed is forgotten when it is deleted',
      file: 'src/kinds/echo/controller.ts',
      find: "if (delta.type === 'deleted') memory.deletedJob = delta.object;",
      replace: "if (delta.type === 'added') memory.deletedJob = delta.object;",
      plans: { tests: ['kinds/echo/echo.test'] },
    },
    {
      name: 'Echo: a CronJob that would take the Job is ignored',
      file: 'src/kinds/echo/controller.ts',
      find: 'if (current === undefined && get(CronJob, echo.metadata.name) !== undefined) return cronJobTakesJob(echo);',
      replace: "if (get(CronJob, '') !== undefined) return cronJobTakesJob(echo);",
      plans: { tests: ['kinds/echo/echo.test'] },
    },
    {
      name: 'Echo: the pods of a replaced Job run on',
      file: 'src/kinds/echo/controller.ts',
      find: "propagationPolicy: 'Foreground'",
      replace: "propagationPolicy: 'Orphan'",
      plans: { tests: ['kinds/echo/echo.test'] },
    },
    {
      name: 'Echo: nobody looks at a pod that is overdue',
      file: 'src/kinds/echo/controller.ts',
      find: 'requeueAfterMs: untilOverdueMs(pods) }',
      replace: 'requeueAfterMs: undefined }',
      plans: { tests: ['kinds/echo/echo.test'] },
    },
  ],
};
