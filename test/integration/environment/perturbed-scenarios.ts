import { Echo, PodSet, ScheduledEcho } from '../../../src/api/index.ts';
import { addEchoController } from '../../../src/controllers/echo/index.ts';
import { addPodSetController } from '../../../src/controllers/pod-set/index.ts';
import { addScheduledEchoController } from '../../../src/controllers/scheduled-echo/index.ts';
import type { Operator } from '../../../src/runtime/index.ts';
import { CronJob, Job, Pod } from '../../../src/runtime/kinds/index.ts';
import type { Scenario } from '../../../src/runtime/testing/index.ts';
import { podSettings as pod } from '../../../testkit/pod-settings.ts';
import type { TestCluster } from '../../../testkit/test-cluster.ts';
import { customManifest } from '../../../testkit/with-reason.ts';

const name = 'hello';

const settings = ({ events }: Operator, namespace: string) => ({
  events,
  workers: 2,
  resyncEveryMs: 600_000,
  namespaces: [namespace],
});

/** The life of an object of each kind. The API server needs kube-controller-manager. */
export const scenariosOn = (cluster: Pick<TestCluster, 'endPods'>): readonly Scenario[] => [
  {
    name: 'echo',
    kinds: [Echo, Job],
    addControllers: (operator, namespace) =>
      addEchoController(operator.manager, { pod, ...settings(operator, namespace) }),
    steps: {
      create: ({ client, namespace }) => client.create(Echo, customManifest({ name, namespace }, { message: 'one' })),
      'job-deleted': ({ client, namespace }) => client.delete(Job, { name, namespace }),
      update: ({ client, namespace }) =>
        client.apply(Echo, customManifest({ name, namespace }, { message: 'two' }), { force: true }),
      print: ({ namespace }) => cluster.endPods({ name, namespace }),
      delete: ({ client, namespace }) => client.delete(Echo, { name, namespace }),
    },
  },
  {
    name: 'scheduled-echo',
    kinds: [ScheduledEcho, CronJob],
    addControllers: (operator, namespace) => {
      const { manager, applier } = operator;
      addScheduledEchoController(manager, { applier, pod, ...settings(operator, namespace) });
    },
    steps: {
      create: ({ client, namespace }) =>
        client.create(ScheduledEcho, customManifest({ name, namespace }, { message: 'one', schedule: '0 0 1 1 *' })),
      'cron-job-deleted': ({ client, namespace }) => client.delete(CronJob, { name, namespace }),
      'cron-job-edited': ({ client, namespace }) => {
        const body = { spec: { schedule: '1 1 1 1 *' } };
        return client.patch(CronJob, { name, namespace }, { type: 'merge', body });
      },
      update: ({ client, namespace }) => {
        const spec = { message: 'two', schedule: '0 0 1 1 *' };
        return client.apply(ScheduledEcho, customManifest({ name, namespace }, spec), { force: true });
      },
      delete: ({ client, namespace }) => client.delete(ScheduledEcho, { name, namespace }),
    },
  },
  {
    name: 'pod-set',
    kinds: [PodSet, Pod],
    canonicalName: (pod) => pod.replace(/-pod-\w+$/, '-pod-*'),
    addControllers: (operator, namespace) => {
      const { manager, applier } = operator;
      addPodSetController(manager, { applier, defaultPod: pod, ...settings(operator, namespace) });
    },
    steps: {
      create: ({ client, namespace }) => client.create(PodSet, customManifest({ name, namespace }, { replicas: 2 })),
      grow: ({ client, namespace }) =>
        client.apply(PodSet, customManifest({ name, namespace }, { replicas: 3 }), { force: true }),
      'pod-deleted': async ({ client, namespace }) => {
        const [first] = (await client.list(Pod, { namespace })).items;
        if (first !== undefined) await client.delete(Pod, first.metadata);
      },
      shrink: ({ client, namespace }) =>
        client.apply(PodSet, customManifest({ name, namespace }, { replicas: 1 }), { force: true }),
      roll: ({ client, namespace }) => {
        const template = { spec: { containers: [{ name: 'sleeper', image: 'sleeper:2' }] } };
        return client.apply(PodSet, customManifest({ name, namespace }, { replicas: 1, template }), { force: true });
      },
      delete: ({ client, namespace }) => client.delete(PodSet, { name, namespace }),
    },
  },
];
