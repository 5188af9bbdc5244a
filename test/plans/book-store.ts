import {
  Deployment,
  PersistentVolume,
  PersistentVolumeClaim,
  Service,
  StatefulSet,
  StorageClass,
} from '@echoperator/runtime/kinds';
import { eventually, type ScenarioWorld } from '@echoperator/testing';
import { bookStoreController } from '../../src/kinds/book-store/controller.ts';
import { BookStore } from '../../src/kinds/book-store/kind.ts';
import { bookStoreDefaults } from '../../testkit/pod-settings.ts';
import { customManifest } from '../../testkit/with-reason.ts';
import { PlayedVolumes } from '../integration/environment/played-volumes.ts';
import type { KindPlans } from './kind-plans.ts';
import {
  addDefined,
  create,
  createdWithChild,
  createUpdateDelete,
  name,
  remove,
  untilGone,
  update,
} from './scenario-steps.ts';
import { longKey, valuesOfPodMetadata } from './values.ts';

const addBookStores = addDefined(bookStoreController(bookStoreDefaults));

// An API server accepts a Deployment whose pods it refuses because of white space around their image, and the old pods
// run on.
const image = ['example.com/app', 'example.com:5000/team/app', '', 'x'.repeat(300), '世界'];
const tags = ['1.0', 'latest', '', '世界'];
const quantities = [
  { cpu: '100m', memory: '64Mi' },
  { cpu: 1 },
  {},
  { cpu: 'much' },
  { memory: '-1' },
  { [longKey]: 1 },
];
const ids = [0, 65_532, 9_223_372_036_854_775_807n.toString(), -1];

/** The values of a BookStore's app or database, whose schemas have much in common. */
const ofContainers = (part: string): Readonly<Record<string, readonly unknown[]>> => ({
  [`${part}.repository`]: image,
  [`${part}.env[].valueFrom`]: [{ fieldRef: { fieldPath: 'metadata.name' } }, {}, 'a text'],
  [`${part}.tag`]: tags,
  [`${part}.replicas`]: [2, 0, 1, -1, 'two'],
  [`${part}.serviceName`]: [`${part.toLowerCase()}-other`, 'Upper', 'x'.repeat(64), 'the-db', 'the-app'],
  [`${part}.resources`]: [
    { requests: { cpu: '100m' }, limits: { cpu: '200m' } },
    { requests: { cpu: 2 }, limits: { cpu: 1 } },
  ],
  [`${part}.resources.requests`]: quantities,
  [`${part}.resources.requests.*`]: ['1', 'much'],
  [`${part}.resources.limits`]: quantities,
  [`${part}.env`]: [
    [{ name: 'A', value: 'b' }],
    [{ name: 'A' }, { name: 'B', value: '世界' }],
    [{ name: 'A' }, { name: 'A' }],
    [],
  ],
  [`${part}.podSecurityContext.runAsUser`]: ids,
  [`${part}.podSecurityContext.supplementalGroups`]: [[1, 2], [], [-1]],
});

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

/**
 * What the controllers of the children write depends on which of them is first: the garbage collector, or the one that
 * creates a ReplicaSet.
 */
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

/** A BookStore waits for its Deployment, its StatefulSet and its claims. */
const needsWorkloads = 'a simulation plays no controllers of Deployments, StatefulSets and volumes';

export const plans: KindPlans = {
  example: {
    bookApp: {
      repository: 'app',
      replicas: 1,
      port: 80,
      targetPort: 3000,
      serviceType: 'ClusterIP',
      env: [{ name: 'A', value: '1' }],
    },
    bookDB: { repository: 'mongo', replicas: 1, port: 27017, dbSize: '2Gi' },
  },
  subject: () => ({
    kind: BookStore,
    children: [Deployment, StatefulSet, Service, PersistentVolumeClaim],
    childrenThatStay: [PersistentVolumeClaim],
    // A revision counts the templates, the applier may note once more what it applied, the status is not ours, a
    // context that loses its last member may become an empty one, and the claims of removed replicas stay.
    mayDiffer: (path) =>
      /annotations\.(deployment\.kubernetes\.io\/revision|operator\/applied)$/.test(path) ||
      /^(Deployment|StatefulSet) .*( #1\.status\.|ecurityContext(\.capabilities)?$)/.test(path) ||
      path.startsWith('PersistentVolumeClaim '),
    spec: {
      bookApp: { repository: 'example.com/app', replicas: 1, serviceName: 'the-app' },
      bookDB: {
        repository: 'example.com/db',
        replicas: 1,
        dbSize: '1Gi',
        serviceName: 'the-db',
        storageClassName: 'one',
      },
    },
    values: {
      ...ofContainers('bookApp'),
      ...ofContainers('bookDB'),
      ...valuesOfPodMetadata('bookApp.'),
      ...valuesOfPodMetadata('bookDB.'),
      bookDB: [
        { repository: 'example.com/other', replicas: 1, dbSize: '1Gi', serviceName: 'the-db', storageClassName: 'one' },
        {},
        'a text',
      ],
      // Growth needs a storage driver.
      'bookDB.dbSize': ['1024Mi', '1Mi', '0', 'large', '-1Gi'],
      'bookDB.storageClassName': ['another', ''],
    },
    immutable: ['bookDB.serviceName', 'bookDB.storageClassName'],
    // It decides when a pod is restarted.
    withoutEffect: ['bookDB.resizeRestartAfter'],
  }),
  scenarios: () => [
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
  ],
  permissionPlans: ['book-store', 'book-store-growth', 'book-store-children'],
  bugs: [
    {
      name: 'BookStore: the claims are not deleted',
      file: 'src/kinds/book-store/reclaim.ts',
      find: 'if (!(await stillDeletesData(client, bookStore))) return cleanedUp;',
      replace: 'if (client !== undefined) return cleanedUp;',
      plans: { perturb: ['book-store/delete write 1 unsent'] },
      notSimulated: needsWorkloads,
    },
    {
      name: 'BookStore: the deletion does not wait for the StatefulSet',
      file: 'src/kinds/book-store/reclaim.ts',
      find: "return { reason: 'Deleting', message, requeueAfterMs: statefulSetRecheckMs };",
      replace: 'return cleanedUp;',
      plans: { perturb: ['book-store/delete write 1 unsent'] },
      notSimulated: needsWorkloads,
    },
    {
      name: 'BookStore: the claims do not have the label by which they are deleted',
      file: 'src/kinds/book-store/database.ts',
      find: 'metadata: { name: volumeName, labels: { [bookStoreUidLabel]: metadata.uid } },',
      replace: 'metadata: { name: volumeName },',
      plans: { perturb: ['book-store/delete write 1 unsent'] },
      notSimulated: needsWorkloads,
    },
    {
      name: 'BookStore: a changed Deployment is not noticed',
      file: 'src/kinds/book-store/controller.ts',
      find: 'owns: [Deployment, ',
      replace: 'owns: [{ kind: Deployment, predicate: () => false }, ',
      plans: { perturb: ['book-store/deployment-edited write 1 unsent'] },
      notSimulated: needsWorkloads,
    },
    {
      name: 'BookStore: the Service of an earlier name stays',
      file: 'src/kinds/book-store/app.ts',
      find: "if (app.reason === 'AppServing') {",
      replace: "if (app.reason === 'AppUpdating') {",
      plans: { mutate: ['BookStore/bookApp.serviceName'] },
      notSimulated: needsWorkloads,
    },
    {
      name: 'BookStore: the finalizer of an earlier policy stays',
      file: 'src/kinds/book-store/controller.ts',
      find: 'isNeeded: deletesClaims,',
      replace: 'isNeeded: (bookStore) => deletesClaims(bookStore) || bookStore.metadata.finalizers !== undefined,',
      plans: { mutate: ['BookStore/bookDB.reclaimPolicy'] },
      notSimulated: needsWorkloads,
    },
    {
      name: 'BookStore: a property has no effect',
      file: 'src/kinds/book-store/desired.ts',
      find: 'imagePullPolicy: imagePullPolicy ??',
      replace: 'imagePullPolicy:',
      plans: { mutate: ['BookStore/bookApp.imagePullPolicy'] },
      notSimulated: needsWorkloads,
    },
  ],
};
