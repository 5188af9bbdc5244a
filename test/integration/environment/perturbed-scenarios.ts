import { Registry } from 'prom-client';
import { BookStore, Echo, Pet, PodSet, PostgresWriter, ScheduledEcho } from '../../../src/api/index.ts';
import { readConfig } from '../../../src/config.ts';
import { addBookStoreController } from '../../../src/controllers/book-store/index.ts';
import { addEchoController } from '../../../src/controllers/echo/index.ts';
import { addPetController } from '../../../src/controllers/pet/index.ts';
import { addPodSetController } from '../../../src/controllers/pod-set/index.ts';
import { addPostgresWriterController } from '../../../src/controllers/postgres-writer/index.ts';
import { addScheduledEchoController } from '../../../src/controllers/scheduled-echo/index.ts';
import type { Operator } from '../../../src/runtime/index.ts';
import {
  CronJob,
  Deployment,
  Job,
  PersistentVolumeClaim,
  Pod,
  Service,
  StatefulSet,
} from '../../../src/runtime/kinds/index.ts';
import { eventually, type Scenario } from '../../../src/runtime/testing/index.ts';
import { bookStoreDefaults, podSettings as pod } from '../../../testkit/pod-settings.ts';
import type { TestCluster } from '../../../testkit/test-cluster.ts';
import { customManifest } from '../../../testkit/with-reason.ts';
import { FencedSystem } from './fenced-system.ts';
import type { OutsideSystems } from './outside-systems.ts';

const name = 'hello';

const settings = ({ events }: Operator, namespace: string) => ({
  events,
  workers: 2,
  resyncEveryMs: 600_000,
  namespaces: [namespace],
});

const addScheduledEchos: Scenario['addControllers'] = (operator, namespace) => {
  const { manager, applier } = operator;
  addScheduledEchoController(manager, { applier, pod, ...settings(operator, namespace) });
};

/** The app has no pods, so it serves without a kubelet. */
const bookStoreSpec = {
  bookApp: { repository: 'example.com/app', replicas: 0, serviceName: 'the-app' },
  bookDB: {
    repository: 'example.com/db',
    replicas: 1,
    dbSize: '1Gi',
    serviceName: 'the-db',
    reclaimPolicy: 'Delete' as const,
  },
};

const someJob = {
  template: { spec: { restartPolicy: 'Never', containers: [{ name: 'own', image: 'example.com/own' }] } },
};

/** The life of an object of each kind without systems outside of the cluster. The API server needs kube-controller-manager. */
export const scenariosOn = (cluster: Pick<TestCluster, 'endPods'>): readonly Scenario[] => [
  {
    name: 'echo',
    kinds: [Echo, Job],
    restores: { 'job-deleted': 'create' },
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
    name: 'echo-name-taken',
    kinds: [Echo, Job],
    restores: { delete: 'job-created' },
    addControllers: (operator, namespace) =>
      addEchoController(operator.manager, { pod, ...settings(operator, namespace) }),
    steps: {
      'job-created': ({ client, namespace }) => client.create(Job, { metadata: { name, namespace }, spec: someJob }),
      create: ({ client, namespace }) => client.create(Echo, customManifest({ name, namespace }, { message: 'one' })),
      delete: ({ client, namespace }) => client.delete(Echo, { name, namespace }),
      'job-deleted': ({ client, namespace }) =>
        client.delete(Job, { name, namespace }, { propagationPolicy: 'Background' }),
    },
  },
  {
    name: 'scheduled-echo-name-taken',
    kinds: [ScheduledEcho, CronJob],
    restores: { delete: 'cron-job-created' },
    addControllers: addScheduledEchos,
    steps: {
      'cron-job-created': ({ client, namespace }) => {
        const spec = { schedule: '1 1 1 1 *', jobTemplate: { spec: someJob } };
        return client.create(CronJob, { metadata: { name, namespace }, spec });
      },
      create: ({ client, namespace }) =>
        client.create(ScheduledEcho, customManifest({ name, namespace }, { message: 'one', schedule: '0 0 1 1 *' })),
      delete: ({ client, namespace }) => client.delete(ScheduledEcho, { name, namespace }),
      'cron-job-deleted': ({ client, namespace }) => client.delete(CronJob, { name, namespace }),
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
    restores: { 'pod-deleted': 'grow', 'pod-orphaned': 'grow' },
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
      // A reference that is not the controller's remains, as a tool may leave it.
      'pod-orphaned': async ({ client, namespace }) => {
        const [first] = (await client.list(Pod, { namespace })).items;
        const [owner] = first?.metadata.ownerReferences ?? [];
        if (first === undefined || owner === undefined) return;
        const { name, uid, apiVersion, kind } = owner;
        const body = { metadata: { ownerReferences: [{ name, uid, apiVersion, kind }] } };
        await client.patch(Pod, first.metadata, { type: 'merge', body });
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
  {
    name: 'book-store',
    // How often the status changes depends on the controllers of the children.
    mayOmitWrites: true,
    kinds: [BookStore, Deployment, StatefulSet, Service, PersistentVolumeClaim],
    restores: { 'service-deleted': 'create', 'deployment-edited': 'create' },
    addControllers: (operator, namespace) => {
      const { manager, applier } = operator;
      const podDefaults = bookStoreDefaults;
      addBookStoreController(manager, { applier, podDefaults, ...settings(operator, namespace) });
    },
    steps: {
      create: ({ client, namespace }) => client.create(BookStore, customManifest({ name, namespace }, bookStoreSpec)),
      'service-deleted': ({ client, namespace }) => client.delete(Service, { name: 'the-db', namespace }),
      'deployment-edited': ({ client, namespace }) => {
        const body = { metadata: { labels: { 'app.kubernetes.io/managed-by': 'somebody-else' } } };
        return client.patch(Deployment, { name: `${name}-app`, namespace }, { type: 'merge', body });
      },
      update: ({ client, namespace }) => {
        const bookApp = { ...bookStoreSpec.bookApp, tag: '2', serviceName: 'the-other-app' };
        return client.apply(BookStore, customManifest({ name, namespace }, { ...bookStoreSpec, bookApp }), {
          force: true,
        });
      },
      delete: ({ client, namespace }) => client.delete(BookStore, { name, namespace }),
    },
  },
];

const writerSpec = { table: 'students', name: 'Ada', age: 36, country: 'UK' };

const petOf = (namespace: string, call: string) =>
  customManifest({ name, namespace }, {
    name: `${call} of ${namespace}`,
    type: 'dog',
    birthday: '2020-01-31T00:00:00Z',
  } as const);

/** The life of an object of each kind with a system outside of the cluster. */
export const outsideScenariosOn = (outside: OutsideSystems): readonly Scenario[] => {
  const { petstore, psql } = readConfig(outside.settings);
  const writers: Pick<Scenario, 'kinds' | 'outside' | 'addControllers'> = {
    kinds: [PostgresWriter],
    outside: (namespace) => outside.rows(namespace),
    addControllers: async (operator, namespace, hooks) => {
      const fenced = await FencedSystem.database(psql.port, hooks);
      const user = await outside.databaseUser(namespace);
      const database = { ...psql, host: '127.0.0.1', port: fenced.port, poolSize: 2, user };
      const options = {
        settings: database,
        gate: hooks.gate,
        registry: new Registry(),
        ...settings(operator, namespace),
      };
      return fenced.closeAfter(addPostgresWriterController(operator.manager, options));
    },
  };
  const pets: Pick<Scenario, 'kinds' | 'outside' | 'addControllers'> = {
    kinds: [Pet],
    outside: (namespace) => outside.petsNamedAfter(namespace),
    addControllers: async (operator, namespace, hooks) => {
      const fenced = await FencedSystem.petStore(Number(petstore.address.split(':')[1]), hooks);
      const options = {
        address: `127.0.0.1:${fenced.port}`,
        tls: undefined,
        timeoutMs: petstore.timeoutSeconds * 1000,
        gate: hooks.gate,
        registry: new Registry(),
        ...settings(operator, namespace),
      };
      return fenced.closeAfter(addPetController(operator.manager, options));
    },
  };
  return [
    {
      name: 'postgres-writer',
      ...writers,
      steps: {
        create: ({ client, namespace }) =>
          client.create(PostgresWriter, customManifest({ name, namespace }, writerSpec)),
        update: ({ client, namespace }) => {
          const spec = { ...writerSpec, age: 37 };
          return client.apply(PostgresWriter, customManifest({ name, namespace }, spec), { force: true });
        },
        move: ({ client, namespace }) => {
          const spec = { ...writerSpec, table: 'teachers' };
          return client.apply(PostgresWriter, customManifest({ name, namespace }, spec), { force: true });
        },
        delete: ({ client, namespace }) => client.delete(PostgresWriter, { name, namespace }),
      },
    },
    {
      name: 'postgres-writer-in-motion',
      mayOmitWrites: true,
      ...writers,
      steps: {
        'create-move': async ({ client, namespace }) => {
          await client.create(PostgresWriter, customManifest({ name, namespace }, writerSpec));
          await eventually('the row exists', async () => (await outside.rows(namespace)).length > 0);
          const spec = { ...writerSpec, table: 'teachers' };
          await client.apply(PostgresWriter, customManifest({ name, namespace }, spec), { force: true });
        },
        'move-delete': async ({ client, namespace }) => {
          await client.apply(PostgresWriter, customManifest({ name, namespace }, writerSpec), { force: true });
          await eventually('the row exists', async () =>
            JSON.stringify(await outside.rows(namespace)).includes(writerSpec.table),
          );
          await client.delete(PostgresWriter, { name, namespace });
        },
      },
    },
    {
      name: 'pet-in-creation',
      mayOmitWrites: true,
      ...pets,
      steps: {
        'create-delete': async ({ client, namespace }) => {
          await client.create(Pet, petOf(namespace, 'Rex'));
          await eventually('the pet exists', async () => (await outside.petsNamedAfter(namespace)).length > 0);
          await client.delete(Pet, { name, namespace });
        },
      },
    },
    {
      name: 'pet',
      ...pets,
      steps: {
        create: ({ client, namespace }) => client.create(Pet, petOf(namespace, 'Rex')),
        rename: ({ client, namespace }) => client.apply(Pet, petOf(namespace, 'Max'), { force: true }),
        delete: ({ client, namespace }) => client.delete(Pet, { name, namespace }),
      },
    },
  ];
};
