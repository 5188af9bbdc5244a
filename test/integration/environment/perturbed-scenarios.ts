import { readConfig } from '../../../src/config.ts';
import { bookStoreController } from '../../../src/kinds/book-store/controller.ts';
import { BookStore } from '../../../src/kinds/book-store/kind.ts';
import { echoController } from '../../../src/kinds/echo/controller.ts';
import { Echo } from '../../../src/kinds/echo/kind.ts';
import { petController } from '../../../src/kinds/pet/controller.ts';
import { Pet } from '../../../src/kinds/pet/kind.ts';
import { podSetController } from '../../../src/kinds/pod-set/controller.ts';
import { PodSet } from '../../../src/kinds/pod-set/kind.ts';
import { postgresWriterController } from '../../../src/kinds/postgres-writer/controller.ts';
import { PostgresWriter } from '../../../src/kinds/postgres-writer/kind.ts';
import { scheduledEchoController } from '../../../src/kinds/scheduled-echo/controller.ts';
import { ScheduledEcho } from '../../../src/kinds/scheduled-echo/kind.ts';
import type { ControllerName } from '../../../src/kinds.ts';
import { caches } from '../../../src/operator.ts';
import { type Gate, isNotFound } from '../../../src/runtime/client/index.ts';
import type { ControllerHost, DefinedController } from '../../../src/runtime/controller/index.ts';
import {
  type CustomKind,
  controllerOf,
  controllerReference,
  customResourceDefinition,
  isControlledBy,
  type Kind,
  type KubeObject,
  type Manifest,
  type Operator,
} from '../../../src/runtime/index.ts';
import {
  CronJob,
  CustomResourceDefinition,
  Deployment,
  Job,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  Service,
  StatefulSet,
  StorageClass,
} from '../../../src/runtime/kinds/index.ts';
import { eventually, type Scenario, type ScenarioWorld } from '../../../src/runtime/testing/index.ts';
import { cronJobKey } from '../../../testkit/cron-job-key.ts';
import { bookStoreDefaults, podSettings as pod } from '../../../testkit/pod-settings.ts';
import type { TestCluster } from '../../../testkit/test-cluster.ts';
import { customManifest } from '../../../testkit/with-reason.ts';
import { FencedSystem } from './fenced-system.ts';
import { originalEchoCrd } from './original-crds.ts';
import type { OutsideSystems } from './outside-systems.ts';
import { PlayedVolumes } from './played-volumes.ts';

const name = 'hello';

const settings = ({ events }: Operator, namespace: string) => ({
  events,
  workers: 2,
  resyncEveryMs: 600_000,
  namespaces: [namespace],
});

const addDefined =
  (controller: DefinedController): Scenario['addControllers'] =>
  (operator, namespace) => {
    const { workers, resyncEveryMs, namespaces } = settings(operator, namespace);
    controller.add(operator, { workers, resyncEveryMs, namespaces, caches });
  };
/** The operator, whose calls to other systems pass this gate. */
const fencedBy = (fence: Gate, { manager, applier, events, metrics }: Operator): ControllerHost => ({
  manager,
  applier,
  events,
  metrics,
  elector: { fence },
});

const addEchos = addDefined(echoController(pod));
const addScheduledEchos = addDefined(scheduledEchoController(pod));
const addPodSets = addDefined(podSetController(pod));
const addBookStores = addDefined(bookStoreController(bookStoreDefaults));

/** A PodSet never has more pods than it asks for. Those that a larger number has left may not become more. */
const neverMoreThanAsked: Scenario['always'] = () => {
  let last = 0;
  return (objects) => {
    const set = objects.find(({ kind }) => kind === PodSet.kind)?.object as PodSet | undefined;
    // The garbage collector deletes the pods of a PodSet that is gone.
    if (set === undefined) return undefined;
    const isLive = ({ kind, object }: (typeof objects)[number]): boolean =>
      kind === Pod.kind && isControlledBy(object, set) && object.metadata.deletionTimestamp === undefined;
    const before = last;
    last = objects.filter(isLive).length;
    return last > Math.max(set.spec.replicas, before) ? `${last} pods, ${set.spec.replicas} are asked for` : undefined;
  };
};

/** Pods have random names. */
const canonicalPodName = (pod: string): string => pod.replace(/-pod-\w+$/, '-pod-*');

const create =
  (kind: CustomKind, spec: object) =>
  ({ client, namespace }: ScenarioWorld) =>
    client.create<KubeObject>(kind, { metadata: { name, namespace }, spec } as Manifest<KubeObject>);

const update =
  (kind: CustomKind, spec: object) =>
  ({ client, namespace }: ScenarioWorld) =>
    client.apply<KubeObject>(kind, { metadata: { name, namespace }, spec } as Manifest<KubeObject>, { force: true });

const remove =
  (kind: Kind) =>
  ({ client, namespace }: ScenarioWorld) =>
    client.delete(kind, { name, namespace });

const untilGone = (kind: Kind, { client, namespace }: ScenarioWorld): Promise<boolean> =>
  eventually(`the ${kind.kind} is gone`, () => client.get(kind, { name, namespace }).then(() => false, isNotFound));

/** Creates, updates and deletes at once. An operator that watches only from time to time never sees the object. */
const createUpdateDelete = (kind: CustomKind, specs: readonly object[]) => async (world: ScenarioWorld) => {
  const [first = {}, ...others] = specs;
  await create(kind, first)(world);
  for (const spec of others) await update(kind, spec)(world);
  await remove(kind)(world);
  await untilGone(kind, world);
};

/** Creates the object, waits until it has a child, and returns the child's metadata. */
const createdWithChild = async <T extends KubeObject>(
  kind: CustomKind,
  spec: object,
  child: Kind<T>,
  world: ScenarioWorld,
) => {
  const owner = await create(kind, spec)(world);
  return eventually(`the ${kind.kind} has a ${child.kind}`, async () => {
    const { items } = await world.client.list(child, { namespace: world.namespace });
    return items.find((item) => isControlledBy(item, owner))?.metadata;
  });
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

/** Its claim stays. */
const keptBookStoreSpec = { ...bookStoreSpec, bookDB: { ...bookStoreSpec.bookDB, reclaimPolicy: 'Retain' as const } };

const changedBookStoreSpec = {
  bookApp: { ...keptBookStoreSpec.bookApp, replicas: 1 },
  bookDB: { ...keptBookStoreSpec.bookDB, tag: '2' },
};

/** A StorageClass whose volumes can grow. The steps play its driver. */
const growable = 'growable-in-scenarios';

const growingBookStoreSpec = (dbSize: string) => {
  return { ...bookStoreSpec, bookDB: { ...bookStoreSpec.bookDB, dbSize, storageClassName: growable } };
};

const bookStoreKinds = [BookStore, Deployment, StatefulSet, Service, PersistentVolumeClaim];

/** What the controllers of the children write depends on which of them is first: the garbage collector, or the one that creates a ReplicaSet. */
const isOfOtherControllers = (path: string): boolean =>
  /^(Deployment|StatefulSet) .*(\.status\.|deployment\.kubernetes\.io)/.test(path) ||
  /^PersistentVolumeClaim .*\/storage-provisioner$/.test(path);

/** The messages about children tell what their controllers have done. */
const isOfOtherControllersOrTold = (path: string): boolean =>
  isOfOtherControllers(path) || /^BookStore .*\.status\.conditions\.\d+\.message$/.test(path);

const claimName = `data-${name}-db-0`;

const claimOf = ({ client, namespace }: ScenarioWorld): Promise<PersistentVolumeClaim> =>
  client.get(PersistentVolumeClaim, { namespace, name: claimName });

/** Plays the provisioner. The controller of volumes binds the claim. */
async function provideVolume(world: ScenarioWorld): Promise<void> {
  const { client, namespace } = world;
  const { metadata } = await eventually('the claim exists', () => claimOf(world));
  const { uid } = metadata;
  await client.create(PersistentVolume, {
    metadata: { name: `pvc-${uid}` },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage: '1Gi' },
      storageClassName: growable,
      claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace, name: claimName, uid },
      csi: { driver: 'played.example.com', volumeHandle: uid },
    },
  });
  await eventually('the claim is bound', async () => (await claimOf(world)).status?.phase === 'Bound');
}

const isPodReady = ({ status }: Pod): boolean => status?.conditions?.some(({ type }) => type === 'Ready') === true;

/** Plays the kubelet. Returns the pods. */
async function runPods({ client, namespace }: ScenarioWorld): Promise<readonly Pod[]> {
  // Not a pod that took the place of another and belongs to nobody.
  const pods = (await client.list(Pod, { namespace })).items.filter((pod) => controllerOf(pod) !== undefined);
  const lastTransitionTime = new Date().toISOString();
  for (const { metadata } of pods.filter((pod) => !isPodReady(pod))) {
    const conditions = [{ type: 'Ready', status: 'True', lastTransitionTime }];
    await client.mergeStatus(Pod, metadata, { phase: 'Running', conditions });
  }
  return pods;
}

/** Plays the kubelet, until so many pods are ready, and all of the image. */
async function untilPodsReady(
  world: ScenarioWorld,
  wanted: { readonly count: number; readonly image?: string },
): Promise<void> {
  const isWanted = ({ spec }: Pod): boolean =>
    wanted.image === undefined || spec?.containers[0]?.image === wanted.image;
  await eventually('the pods are ready', async () => {
    const pods = await runPods(world);
    return pods.length === wanted.count && pods.every((pod) => isPodReady(pod) && isWanted(pod));
  });
}

const someJob = {
  template: { spec: { restartPolicy: 'Never', containers: [{ name: 'own', image: 'example.com/own' }] } },
};

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

/** The plans of the scenarios below that make a controller send every request that its rules allow: a write without a response is followed by a `get`. */
export const permissionPlans: Readonly<Record<ControllerName, readonly string[]>> = {
  echo: ['echo/create create jobs', 'echo/update delete jobs'],
  scheduledEcho: [
    'scheduled-echo/create patch cronjobs',
    'scheduled-echo/cron-job-edited patch cronjobs',
    'scheduled-echo-of-two-versions/create-earlier-cron-job delete cronjobs',
  ],
  podSet: ['pod-set/grow create pods', 'pod-set/pod-orphaned patch pods'],
  bookStore: ['book-store/', 'book-store-growth/', 'book-store-children/'],
  postgresWriter: ['postgres-writer/create'],
  pet: ['pet/create'],
};

/** An object that was changed must be as a new one of the same spec. */
const anew = (
  name: string,
  controller: Pick<Scenario, 'kinds' | 'addControllers' | 'canonicalName' | 'always'>,
  kind: CustomKind,
  specs: readonly [first: object, last: object],
): Scenario => ({
  ...controller,
  name: `${name}-anew`,
  restores: { 'created-anew': 'changed' },
  // The generation of the spec, and the hash of fields, among them the owner's uid.
  mayDiffer: (path) => /\/(generation|applied)$/.test(path),
  steps: {
    // Not a creation, whose fields a later apply would keep.
    create: update(kind, specs[0]),
    changed: update(kind, specs[1]),
    'deleted-first': remove(kind),
    'created-anew': update(kind, specs[1]),
    delete: remove(kind),
  },
});

const scheduledEchos = { kinds: [ScheduledEcho, CronJob], addControllers: addScheduledEchos };

const yearly = { message: 'one', schedule: '0 0 1 1 *' };

/** Changed objects beside new ones, as `mutate` compares them with more specs. For a simulation. */
export const anewScenarios: readonly Scenario[] = [
  anew('echo', { kinds: [Echo, Job], addControllers: addEchos }, Echo, [{ message: 'one' }, { message: 'two' }]),
  anew('scheduled-echo-suspended', scheduledEchos, ScheduledEcho, [yearly, { ...yearly, suspend: true }]),
  anew('scheduled-echo-zone', scheduledEchos, ScheduledEcho, [{ ...yearly, timeZone: 'Etc/UTC' }, yearly]),
  anew(
    'pod-set',
    { kinds: [PodSet, Pod], addControllers: addPodSets, canonicalName: canonicalPodName, always: neverMoreThanAsked },
    PodSet,
    [{ replicas: 3 }, { replicas: 1, template: { spec: { containers: [{ name: 'sleeper', image: 'sleeper:2' }] } } }],
  ),
];

/** The life of an object of each kind without systems outside of the cluster. The API server needs kube-controller-manager. */
export const scenariosOn = (cluster: Pick<TestCluster, 'endPods'>): readonly Scenario[] => [
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
  {
    name: 'pod-set-in-motion',
    mayOmitWrites: true,
    kinds: [PodSet, Pod],
    canonicalName: canonicalPodName,
    always: neverMoreThanAsked,
    addControllers: addPodSets,
    steps: {
      'create-update-delete': async (world) => {
        // A smaller number would make the operator delete only the pods that exist yet.
        await createUpdateDelete(PodSet, [{ replicas: 1 }, { replicas: 2 }])(world);
        await createdWithChild(PodSet, { replicas: 2 }, Pod, world);
        await update(PodSet, { replicas: 3 })(world);
        await remove(PodSet)(world);
      },
    },
  },
  {
    name: 'pod-set-roll',
    perturbedSteps: ['roll'],
    // How often the status changes depends on when pods become ready.
    mayOmitWrites: true,
    kinds: [PodSet, Pod],
    canonicalName: canonicalPodName,
    always: neverMoreThanAsked,
    meanwhile: runPods,
    addControllers: addPodSets,
    steps: {
      create: async (world) => {
        await create(PodSet, { replicas: 2 })(world);
        await untilPodsReady(world, { count: 2 });
      },
      roll: async (world) => {
        const template = { spec: { containers: [{ name: 'sleeper', image: 'sleeper:2' }] } };
        await update(PodSet, { replicas: 2, template })(world);
        await untilPodsReady(world, { count: 2, image: 'sleeper:2' });
      },
      delete: remove(PodSet),
    },
  },
  {
    name: 'pod-set',
    kinds: [PodSet, Pod],
    restores: { 'pod-deleted': 'grow', 'pod-orphaned': 'grow' },
    canonicalName: canonicalPodName,
    always: neverMoreThanAsked,
    addControllers: addPodSets,
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
      delete: ({ client, namespace }) => client.delete(PodSet, { name, namespace }),
    },
  },
  {
    name: 'book-store',
    // How often the status changes depends on the controllers of the children.
    mayOmitWrites: true,
    kinds: bookStoreKinds,
    mayDiffer: isOfOtherControllers,
    restores: { 'service-deleted': 'create', 'deployment-edited': 'create' },
    addControllers: addBookStores,
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
  {
    name: 'book-store-children',
    perturbedSteps: ['children-deleted', 'stateful-set-edited', 'update', 'reclaim-policy'],
    mayOmitWrites: true,
    kinds: bookStoreKinds,
    mayDiffer: isOfOtherControllersOrTold,
    restores: { 'children-deleted': 'create', 'stateful-set-edited': 'create' },
    addControllers: addBookStores,
    steps: {
      create: create(BookStore, keptBookStoreSpec),
      'children-deleted': async ({ client, namespace }) => {
        await client.delete(Deployment, { name: `${name}-app`, namespace });
        await client.delete(StatefulSet, { name: `${name}-db`, namespace });
      },
      'stateful-set-edited': ({ client, namespace }) => {
        const image = {
          op: 'replace',
          path: '/spec/template/spec/containers/0/image',
          value: 'example.com/other',
        } as const;
        return client.patch(StatefulSet, { name: `${name}-db`, namespace }, { type: 'json', body: [image] });
      },
      update: update(BookStore, changedBookStoreSpec),
      'reclaim-policy': update(BookStore, {
        ...changedBookStoreSpec,
        bookDB: { ...changedBookStoreSpec.bookDB, reclaimPolicy: 'Delete' },
      }),
      delete: async (world) => {
        const { client, namespace } = world;
        await remove(BookStore)(world);
        await untilGone(BookStore, world);
        // A perturbed run may come here before the reclaim policy has changed.
        await client.deleteCollection(PersistentVolumeClaim, { namespace });
      },
    },
  },
  {
    name: 'book-store-growth',
    perturbedSteps: ['grow', 'file-system'],
    mayOmitWrites: true,
    kinds: bookStoreKinds,
    mayDiffer: isOfOtherControllers,
    addControllers: addBookStores,
    steps: {
      create: async (world) => {
        const { client } = world;
        const metadata = { name: growable };
        const provisioner = 'played.example.com';
        await client.apply(StorageClass, { metadata, provisioner, allowVolumeExpansion: true }, { force: true });
        await create(BookStore, growingBookStoreSpec('1Gi'))(world);
        await provideVolume(world);
      },
      grow: async (world) => {
        await update(BookStore, growingBookStoreSpec('2Gi'))(world);
        await eventually(
          'the claim asks for 2Gi',
          async () => (await claimOf(world)).spec?.resources?.requests?.storage === '2Gi',
        );
        await new PlayedVolumes(world.client, world.namespace).growVolume(claimName);
      },
      'file-system': ({ client, namespace }) => new PlayedVolumes(client, namespace).growFileSystem(claimName),
      delete: async (world) => {
        const { spec } = await claimOf(world);
        await remove(BookStore)(world);
        await world.client.delete(PersistentVolume, { name: spec?.volumeName ?? '' });
      },
    },
  },
  {
    name: 'book-store-in-motion',
    mayOmitWrites: true,
    kinds: bookStoreKinds,
    mayDiffer: isOfOtherControllers,
    addControllers: addBookStores,
    steps: {
      'create-update-delete': async (world) => {
        const { bookApp, bookDB } = bookStoreSpec;
        // Without claims, and first without a policy that makes the operator delete what exists yet.
        const kept = { bookApp, bookDB: { ...bookDB, replicas: 0, reclaimPolicy: 'Retain' } };
        const changed = { ...kept, bookApp: { ...bookApp, tag: '2' } };
        await createUpdateDelete(BookStore, [kept, changed])(world);
        const deleted = { bookApp, bookDB: { ...bookDB, replicas: 0 } };
        await createdWithChild(BookStore, deleted, StatefulSet, world);
        await update(BookStore, { ...deleted, bookApp: changed.bookApp })(world);
        await remove(BookStore)(world);
      },
    },
  },
];

/**
 * Replaces the CustomResourceDefinition of Echo, and waits until the API server follows it. That also ends every watch of Echos, after
 * which the operator watches anew.
 */
async function defineEcho(world: ScenarioWorld, { spec }: Pick<CustomResourceDefinition, 'spec'>): Promise<void> {
  const { client, namespace } = world;
  const { metadata } = await client.list(Echo, { namespace });
  const { resourceVersion } = metadata;
  const { signal } = new AbortController();
  const watch = async (): Promise<void> => {
    for await (const _ of client.watch(Echo, { namespace, resourceVersion, timeoutSeconds: 60, signal }));
  };
  // An error ends it too.
  const watched = watch().catch(() => {});
  const body = [{ op: 'replace', path: '/spec', value: spec }] as const;
  await client.patch(CustomResourceDefinition, { name: originalEchoCrd.metadata.name }, { type: 'json', body });
  const hasTtl = spec.versions[0]?.schema?.openAPIV3Schema?.properties?.spec?.properties?.ttlSecondsAfterFinished;
  await eventually('the CustomResourceDefinition is served', async () => {
    const trial = customManifest({ name: 'trial', namespace }, { message: 'one', ttlSecondsAfterFinished: 1 });
    const { spec } = await client.create(Echo, trial, { dryRun: true });
    return (spec.ttlSecondsAfterFinished !== undefined) === (hasTtl !== undefined);
  });
  await watched;
}

/**
 * An Echo that is created under the CustomResourceDefinition of the original, which has no status, and lives on under ours. The
 * definition is of the whole cluster, so only one run at a time is possible.
 */
export const originalCrdScenariosOn = (cluster: Pick<TestCluster, 'endPods'>): readonly Scenario[] => [
  {
    name: 'echo-original-crd',
    // How often the status is refused depends on when the API server follows the new definition.
    mayOmitWrites: true,
    changesDefinitions: true,
    kinds: [Echo, Job],
    addControllers: addEchos,
    steps: {
      create: async (world) => {
        await defineEcho(world, originalEchoCrd);
        await createdWithChild(Echo, { message: 'one' }, Job, world);
        await defineEcho(world, customResourceDefinition(Echo));
        await eventually('the status is written', async () => {
          const { status } = await world.client.get(Echo, { name, namespace: world.namespace });
          return status?.observedGeneration !== undefined;
        });
      },
      print: ({ namespace }) => cluster.endPods({ name, namespace }),
      delete: remove(Echo),
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
  const writers: Pick<Scenario, 'kinds' | 'outside' | 'alwaysOutside' | 'addControllers'> = {
    kinds: [PostgresWriter],
    outside: (namespace) => outside.rows(namespace),
    // A row that moves is in its new table before it leaves the old one.
    alwaysOutside: (rows) => {
      const inTables = rows.map((row) => (row as { readonly table: string }).table);
      return new Set(inTables).size < inTables.length ? `rows in ${inTables.join(', ')}` : undefined;
    },
    addControllers: async (operator, namespace, hooks) => {
      const fenced = await FencedSystem.database(psql.port, hooks);
      const user = await outside.databaseUser(namespace);
      const database = { ...psql, host: '127.0.0.1', port: fenced.port, poolSize: 2, user };
      const { namespaces, ...limits } = settings(operator, namespace);
      const controller = postgresWriterController({ settings: database, ...limits });
      controller.add(fencedBy(hooks.gate, operator), { namespaces });
      return () => fenced.close();
    },
  };
  const pets: Pick<Scenario, 'kinds' | 'outside' | 'alwaysOutside' | 'addControllers'> = {
    kinds: [Pet],
    outside: (namespace) => outside.petsNamedAfter(namespace),
    alwaysOutside: (found) => (found.length > 1 ? `${found.length} pets of one Pet` : undefined),
    addControllers: async (operator, namespace, hooks) => {
      const fenced = await FencedSystem.petStore(Number(petstore.address.split(':')[1]), hooks);
      const { namespaces, ...limits } = settings(operator, namespace);
      const address = `127.0.0.1:${fenced.port}`;
      const controller = petController({
        address,
        tls: undefined,
        timeoutMs: petstore.timeoutSeconds * 1000,
        ...limits,
      });
      controller.add(fencedBy(hooks.gate, operator), { namespaces });
      return () => fenced.close();
    },
  };
  return [
    {
      name: 'postgres-writer',
      ...writers,
      steps: {
        create: ({ client, namespace }) =>
          client.create(PostgresWriter, customManifest({ name, namespace }, writerSpec)),
        update: update(PostgresWriter, { ...writerSpec, name: 'Grace', age: 37, country: 'US' }),
        // The operator learns of a change by others only at a resync, or when the spec changes.
        'row-edited': async (world) => {
          await outside.changeRows(world.namespace, 'edited');
          await update(PostgresWriter, { ...writerSpec, age: 38 })(world);
        },
        'row-deleted': async (world) => {
          await outside.changeRows(world.namespace, 'deleted');
          await update(PostgresWriter, { ...writerSpec, age: 39 })(world);
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
        'create-update-delete': createUpdateDelete(PostgresWriter, [writerSpec, { ...writerSpec, table: 'teachers' }]),
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
        'pet-edited': async (world) => {
          await outside.changePets(world.namespace, 'edited');
          await update(Pet, { ...petOf(world.namespace, 'Max').spec, type: 'cat' })(world);
        },
        'pet-deleted': async (world) => {
          await outside.changePets(world.namespace, 'deleted');
          await update(Pet, { ...petOf(world.namespace, 'Max').spec, birthday: '2021-02-28T00:00:00Z' })(world);
        },
        delete: ({ client, namespace }) => client.delete(Pet, { name, namespace }),
      },
    },
  ];
};
