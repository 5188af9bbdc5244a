import { isControlledBy, type Kind, type KubeObject } from '@echoperator/runtime';
import { ConfigMap, Deployment, PersistentVolumeClaim, Pod, Service, StatefulSet } from '@echoperator/runtime/kinds';
import type { SimulationOptions } from '@echoperator/testing/simulation';
import { describe, expect, test } from '@jest/globals';
import { bookStoreController } from '../../../../src/kinds/book-store/controller.ts';
import { BookStore } from '../../../../src/kinds/book-store/kind.ts';
import { bookStoreDefaults } from '../../../../testkit/pod-settings.ts';
import { forbidden, KindWorld } from '../../environment/kind-world.ts';
import { bind, PlayedWorkloads } from './played-workloads.ts';

class World {
  readonly kind: KindWorld<BookStore>;
  readonly workloads: PlayedWorkloads;

  constructor(kind: KindWorld<BookStore>, workloads: PlayedWorkloads) {
    this.kind = kind;
    this.workloads = workloads;
  }

  apply = (app: object = {}, database: object = {}): Promise<void> => this.kind.apply(spec(app, database));

  /** The object of this name. */
  find<T extends KubeObject>(kind: Kind<T>, name: string): T | undefined {
    return this.kind.simulation.objects(kind).find(({ metadata }) => metadata.name === name);
  }

  get<T extends KubeObject>(kind: Kind<T>, name: string): T {
    const found = this.find(kind, name);
    if (found === undefined) throw new Error(`there is no ${kind.kind} ${name}`);
    return found;
  }

  claim = (ordinal = 0): PersistentVolumeClaim => this.get(PersistentVolumeClaim, `data-shop-db-${ordinal}`);
  pod = (ordinal = 0): Pod => this.get(Pod, `shop-db-${ordinal}`);
  request = (ordinal = 0) => this.claim(ordinal).spec?.resources?.requests?.storage;

  /** Plays the driver and the kubelet: the claim has this status from now on. */
  async grows(status: object, ordinal = 0): Promise<void> {
    await this.kind.setStatus(PersistentVolumeClaim, this.claim(ordinal), status);
    await this.kind.settle();
  }

  remove = async <T extends KubeObject>(kind: Kind<T>, name: string): Promise<void> => {
    await this.kind.client.delete(kind, { namespace: 'default', name });
    await this.kind.settle();
  };
}

const spec = (app: object = {}, database: object = {}) => ({
  bookApp: { repository: 'example.com/app', replicas: 1, ...app },
  bookDB: { repository: 'example.com/db', dbSize: '1Gi', ...database },
});

function run(body: (world: World) => Promise<unknown>, options: Partial<SimulationOptions> = {}): Promise<void> {
  const workloads = new PlayedWorkloads();
  return KindWorld.run(bookStoreController(bookStoreDefaults), BookStore, (kind) => body(new World(kind, workloads)), {
    name: 'shop',
    otherControllers: workloads.steps,
    ...options,
  });
}

const imageOf = (object: Deployment | StatefulSet) => object.spec?.template.spec?.containers[0]?.image;

describe('a BookStore', () => {
  test('has an app and a database, and reports them', () =>
    run(async (world) => {
      await world.apply();
      const { kind } = world;
      expect([
        kind.reason(),
        kind.reason('AppReady'),
        kind.reason('DatabaseReady'),
        kind.reason('VolumeResizing'),
      ]).toEqual([...['AllReady', 'AppServing', 'DatabaseServing', 'VolumesSettled']]);
      expect(kind.status).toMatchObject({
        ...{
          deploymentName: 'shop-app',
          appServiceName: 'bookstore-svc',
          statefulSetName: 'shop-db',
          databaseServiceName: 'mongodb-service',
        },
        ...{ appReplicas: 1, appReadyReplicas: 1, databaseReplicas: 1, databaseReadyReplicas: 1 },
        volumes: [{ claim: 'data-shop-db-0', capacity: '1Gi' }],
      });
      expect(
        kind
          .owned(Service)
          .map(({ metadata }) => metadata.name)
          .toSorted(),
      ).toEqual(['bookstore-svc', 'mongodb-service']);
      const created = kind.events.filter((event) => /Created$/.test(event));
      expect(created.toSorted()).toEqual([
        ...['Normal DeploymentCreated', 'Normal ServiceCreated', 'Normal ServiceCreated', 'Normal StatefulSetCreated'],
      ]);
      const [app, database] = [world.get(Deployment, 'shop-app'), world.get(StatefulSet, 'shop-db')];
      const labels = world.pod().metadata.labels ?? {};
      expect(labels).toMatchObject({ ...world.get(Service, 'mongodb-service').spec?.selector });
      expect(labels).not.toMatchObject({ ...world.get(Service, 'bookstore-svc').spec?.selector });
      expect(app.spec?.template.metadata?.labels).toMatchObject({
        ...world.get(Service, 'bookstore-svc').spec?.selector,
      });
      expect(database.spec?.template.spec?.containers[0]?.volumeMounts).toEqual([
        { name: 'data', mountPath: '/data/db' },
      ]);
    }));

  test('changes its children in place, and keeps what others have added', () =>
    run(async (world) => {
      await world.apply();
      const children = () => [
        world.get(Deployment, 'shop-app'),
        world.get(StatefulSet, 'shop-db'),
        world.get(Service, 'bookstore-svc'),
      ];
      const before = children();
      const sidecar = { name: 'sidecar', image: 'example.com/sidecar' };
      for (const [kind, { metadata }] of [
        [Deployment, before[0]!],
        [StatefulSet, before[1]!],
      ] as const) {
        const body = [
          { op: 'add', path: '/spec/template/spec/containers/-', value: sidecar },
          { op: 'replace', path: '/spec/template/spec/containers/0/image', value: 'example.com/not-ours' },
          { op: 'add', path: '/metadata/labels/team', value: 'a' },
        ] as const;
        await world.kind.client.patch<KubeObject>(kind, metadata, { type: 'json', body });
      }
      await world.kind.settle();
      const [app, database] = children() as [Deployment, StatefulSet];
      expect([imageOf(app), imageOf(database)]).toEqual(['example.com/app:latest', 'example.com/db:latest']);
      for (const each of [app, database]) {
        expect(each.spec?.template.spec?.containers.map(({ name }) => name)).toContain('sidecar');
        expect(each.metadata.labels).toMatchObject({ team: 'a' });
      }
      await world.apply({ tag: 'two', port: 8080, targetPort: 3001 }, { tag: 'two' });
      expect(children().map(({ metadata }) => metadata.uid)).toEqual(before.map(({ metadata }) => metadata.uid));
      expect(world.get(Service, 'bookstore-svc').spec?.ports).toMatchObject([{ port: 8080, targetPort: 3001 }]);
      expect(world.pod().spec?.containers[0]?.image).toBe('example.com/db:two');
    }));

  test.each([
    ['bookstore-svc', Service],
    ['mongodb-service', Service],
    ['shop-app', Deployment],
    ['shop-db', StatefulSet],
  ] as const)('restores a deleted %s, and an Event tells that', (name, kind) =>
    run(async (world) => {
      await world.apply();
      await world.remove<KubeObject>(kind, name);
      await world.kind.settle();
      expect(world.find<KubeObject>(kind, name)).toBeDefined();
      expect(world.kind.notes(`${kind.kind}Recreated`)).toEqual([`created ${kind.kind} ${name}, which was missing`]);
      expect(world.kind.reason()).toBe('AllReady');
    }),
  );

  test('with several databases says that they are independent, and with none has none', () =>
    run(async (world) => {
      await world.apply({}, { replicas: 3 });
      expect([world.kind.reason(), world.kind.status.databaseReplicas]).toEqual(['IndependentDatabases', 3]);
      expect(world.kind.message('DatabaseReady')).toContain('each has its own data');
      await world.apply({ replicas: 0 }, { replicas: 0 });
      expect(world.kind.status).toMatchObject({ appReplicas: 0, databaseReplicas: 0 });
      expect([world.kind.reason(), world.find(Pod, 'shop-db-0')]).toEqual(['AllReady', undefined]);
      expect(world.claim(2).metadata.deletionTimestamp).toBeUndefined();
    }));

  test('whose pods do not start says why, also while no StatefulSet tells of it', () =>
    run(async (world) => {
      world.workloads.isStopped = true;
      await world.apply();
      expect(world.kind.message('AppReady')).toContain(
        '0 of 1 pods of Deployment shop-app are ready: 0 have the current template',
      );
      world.workloads.isStopped = false;
      await world.kind.settle();
      const { metadata } = world.pod();
      const appPod = {
        namespace: 'default',
        name: 'app',
        labels: world.get(Deployment, 'shop-app').spec?.template.metadata?.labels,
      };
      const pod = await world.kind.create(Pod, { metadata: appPod, spec: { containers: [{ name: 'c', image: 'x' }] } });
      const scheduled = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: 'no node has room' };
      world.workloads.isStopped = true;
      for (const each of [pod, world.pod()])
        await world.kind.setStatus(Pod, each, { phase: 'Pending', conditions: [scheduled] });
      for (const [kind, name] of [
        [Deployment, 'shop-app'],
        [StatefulSet, 'shop-db'],
      ] as const)
        await world.kind.setStatus<KubeObject>(kind, world.get<KubeObject>(kind, name), {
          availableReplicas: 0,
          readyReplicas: 0,
        });
      await world.kind.settle();
      expect(world.kind.message('AppReady')).toContain('pod app: FailedScheduling: no node has room');
      expect(world.kind.message('DatabaseReady')).toContain(`pod ${metadata.name}: FailedScheduling: no node has room`);
      expect(world.kind.reason()).toBe('DatabaseUpdating');
    }));

  test('whose pod terminates for too long says so, which no event tells', () =>
    run(async (world) => {
      await world.apply();
      const pod = world.pod();
      world.workloads.isStopped = true;
      await world.kind.hold(Pod, pod);
      await world.kind.client.delete(Pod, pod.metadata);
      await world.kind.setStatus(StatefulSet, world.get(StatefulSet, 'shop-db'), { availableReplicas: 0 });
      await world.kind.advance(100);
      expect(world.kind.message('DatabaseReady')).toContain('pod shop-db-0: still terminating since');
      await world.kind.hold(Pod, pod, []);
    }));

  test.each([
    ['DatabaseReady', StatefulSet, 'AppReady', 'AppServing'],
    ['AppReady', Deployment, 'DatabaseReady', 'DatabaseServing'],
  ] as const)(
    'of which the API server refuses a part reports it in %s, does the rest, and goes on when it may',
    (type, kind, other, reason) =>
      run(async (world) => {
        world.kind.refuse = (request) =>
          request.verb === 'apply' && request.kind.kind === kind.kind ? forbidden('exceeded quota') : undefined;
        await world.apply();
        expect([world.kind.reason(), world.kind.reason(type), world.kind.reason(other)]).toEqual([
          'Refused',
          'Refused',
          reason,
        ]);
        expect(world.kind.message(type)).toContain('exceeded quota');
        world.kind.refuse = () => undefined;
        await world.kind.advance(90);
        expect(world.kind.reason()).toBe('AllReady');
        // It was not there before.
        expect(world.kind.events).not.toContain(`Normal ${kind.kind}Recreated`);
      }),
  );
});

describe('a name that is taken', () => {
  const labels = { app: 'foreign' };
  const workload = {
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec: { containers: [{ name: 'c', image: 'example.com/c' }] } },
    replicas: 0,
  };
  test.each([
    ['shop-app', Deployment, workload, 'AppReady'],
    ['shop-db', StatefulSet, { ...workload, serviceName: 'foreign' }, 'DatabaseReady'],
    ['bookstore-svc', Service, { ports: [{ port: 1 }] }, 'AppReady'],
    ['mongodb-service', Service, { ports: [{ port: 1 }] }, 'DatabaseReady'],
  ] as const)(
    '%s is reported, and nothing is changed; when it is free the BookStore goes on',
    (name, kind, foreignSpec, type) =>
      run(async (world) => {
        const { metadata } = await world.kind.create<KubeObject>(kind, {
          metadata: { namespace: 'default', name },
          spec: foreignSpec,
        });
        await world.apply();
        expect([world.kind.reason(), world.kind.reason(type)]).toEqual(['NameTaken', 'NameTaken']);
        expect(world.kind.message(type)).toContain(`a ${kind.kind} named ${name} `);
        const now = world.get<KubeObject>(kind, name).metadata;
        expect([now.ownerReferences, now.labels]).toEqual([metadata.ownerReferences, metadata.labels]);
        // The app would write into somebody else's database.
        if (name === 'mongodb-service')
          expect([world.find(Deployment, 'shop-app'), world.find(StatefulSet, 'shop-db')]).toEqual([
            undefined,
            undefined,
          ]);
        await world.remove<KubeObject>(kind, name);
        expect(world.kind.reason()).toBe('AllReady');
      }),
  );

  test('leaves the Service of the former name serving', () =>
    run(async (world) => {
      await world.apply();
      await world.kind.create(Service, {
        metadata: { namespace: 'default', name: 'taken' },
        spec: { ports: [{ port: 1 }] },
      });
      await world.apply({ serviceName: 'taken' });
      expect([world.kind.reason(), world.find(Service, 'bookstore-svc') !== undefined]).toEqual(['NameTaken', true]);
      await world.remove(Service, 'taken');
      expect([world.kind.reason(), world.find(Service, 'bookstore-svc')]).toEqual(['AllReady', undefined]);
    }));

  test('by the Service of another BookStore is free when that takes another name', () =>
    run(async (world) => {
      await world.apply();
      const second = { namespace: 'default', name: 'second' };
      await world.kind.create(BookStore, { metadata: second, spec: spec({}, { serviceName: 'second-db' }) });
      await world.kind.settle();
      await world.apply({ serviceName: 'else' });
      const owner = world.get(BookStore, 'second');
      expect(isControlledBy(world.get(Service, 'bookstore-svc'), owner)).toBe(true);
      expect([world.kind.reason(), owner.status?.conditions?.find(({ type }) => type === 'Ready')?.reason]).toEqual([
        'AllReady',
        'AllReady',
      ]);
    }));

  test('by a claim of another controller keeps pods from being added, not changes from being applied', () =>
    run(async (world) => {
      await world.apply();
      const { metadata } = await world.kind.create(ConfigMap, { metadata: { namespace: 'default', name: 'owner' } });
      const ownerReferences = [
        { apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid: metadata.uid, controller: true },
      ];
      const claimSpec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } };
      const taken = { namespace: 'default', name: 'data-shop-db-1', ownerReferences };
      await world.kind.create(PersistentVolumeClaim, { metadata: taken, spec: claimSpec });
      await world.kind.settle();
      await world.apply({}, { tag: 'two', replicas: 3 });
      expect(world.kind.reason('DatabaseReady')).toBe('NameTaken');
      expect(world.kind.message('DatabaseReady')).toContain('claim data-shop-db-1 is controlled by ConfigMap owner');
      expect([imageOf(world.get(StatefulSet, 'shop-db')), world.get(StatefulSet, 'shop-db').spec?.replicas]).toEqual([
        'example.com/db:two',
        1,
      ]);
      await world.remove(PersistentVolumeClaim, 'data-shop-db-1');
      expect([world.kind.reason(), world.get(StatefulSet, 'shop-db').spec?.replicas]).toEqual([
        'IndependentDatabases',
        3,
      ]);
    }));

  test('by a child that is about to go is no fight: a BookStore that takes the place of another waits', () =>
    run(async (world) => {
      await world.apply();
      const { uid } = world.claim().metadata;
      await world.kind.client.delete(BookStore, world.kind.key);
      await world.apply();
      expect([world.kind.reason(), world.claim().metadata.uid]).toEqual(['AllReady', uid]);
      expect(world.kind.events).not.toContain('Warning NameTaken');
    }));
});

test('an earlier Service that may not be deleted is reported, and the new one serves', () =>
  run(async (world) => {
    await world.apply();
    world.kind.refuse = ({ verb, kind }) =>
      verb === 'delete' && kind === Service ? forbidden('no Service is deleted') : undefined;
    await world.apply({ serviceName: 'else' });
    expect(world.kind.reason()).toBe('Refused');
    expect(world.kind.message('AppReady')).toContain('no Service is deleted');
    expect([world.kind.status.appServiceName, world.find(Service, 'else') !== undefined]).toEqual(['else', true]);
    world.kind.refuse = () => undefined;
    await world.kind.advance(90);
    expect([world.kind.reason(), world.find(Service, 'bookstore-svc')]).toEqual(['AllReady', undefined]);
  }));

describe('growing', () => {
  const pending = (since: string) => [{ type: 'FileSystemResizePending', status: 'True', lastTransitionTime: since }];
  const now = (): string => new Date().toISOString().replace(/\.\d+/, '');

  test('asks for more room in every claim, also of removed replicas, restarts nothing, and reports the progress', () =>
    run(async (world) => {
      await world.apply({}, { replicas: 3 });
      await world.apply({}, { replicas: 2 });
      const before = world.get(StatefulSet, 'shop-db').metadata.uid;
      const pods = [world.pod(0).metadata.uid, world.pod(1).metadata.uid];
      await world.apply({}, { replicas: 2, dbSize: '2Gi', tag: 'two' });
      expect([0, 1, 2].map(world.request)).toEqual(['2Gi', '2Gi', '2Gi']);
      expect([world.kind.reason(), world.kind.reason('VolumeResizing')]).toEqual(['ClaimsGrowing', 'ClaimsGrowing']);
      // A change of the pods does not wait for the growth.
      expect(world.pod(0).spec?.containers[0]?.image).toBe('example.com/db:two');
      expect(world.pod(0).metadata.uid).not.toBe(pods[0]);
      const uids = [world.pod(0).metadata.uid, world.pod(1).metadata.uid];
      for (const ordinal of [0, 1]) await world.grows({ conditions: pending(now()) }, ordinal);
      expect(world.kind.reason('VolumeResizing')).toBe('FileSystemResizePending');
      for (const ordinal of [0, 1]) await world.grows({ capacity: { storage: '2Gi' }, conditions: null }, ordinal);
      expect(world.kind.status.volumes).toEqual(
        [0, 1].map((ordinal) => ({ claim: `data-shop-db-${ordinal}`, capacity: '2Gi' })),
      );
      expect([world.kind.reason('VolumeResizing'), world.kind.reason()]).toEqual([
        'VolumesSettled',
        'IndependentDatabases',
      ]);
      expect([
        world.pod(0).metadata.uid,
        world.pod(1).metadata.uid,
        world.get(StatefulSet, 'shop-db').metadata.uid,
      ]).toEqual([...uids, before]);
    }));

  test('does not ask a claim without a volume, and then does', () =>
    run(async (world) => {
      await world.apply({}, { replicas: 2 });
      await world.grows({ phase: 'Pending', capacity: null }, 1);
      await world.apply({}, { replicas: 2, dbSize: '2Gi' });
      expect([world.request(0), world.request(1)]).toEqual(['2Gi', '1Gi']);
      await bind(world.kind.simulation, world.claim(1));
      await world.kind.settle();
      expect(world.request(1)).toBe('2Gi');
    }));

  test('that is refused is reported, retried, and keeps no other change', () =>
    run(async (world) => {
      await world.apply();
      world.kind.refuse = ({ verb, kind }) =>
        verb === 'patch' && kind === PersistentVolumeClaim ? forbidden('exceeded quota: limit') : undefined;
      await world.apply({}, { dbSize: '2Gi', tag: 'two' });
      expect([world.kind.reason(), world.kind.reason('VolumeResizing')]).toEqual(['ResizeRefused', 'ResizeRefused']);
      expect(world.kind.message('VolumeResizing')).toContain('cannot be raised from 1Gi to 2Gi: ');
      expect(world.pod().spec?.containers[0]?.image).toBe('example.com/db:two');
      world.kind.refuse = () => undefined;
      await world.kind.advance(90);
      expect([world.request(), world.kind.reason()]).toEqual(['2Gi', 'ClaimsGrowing']);
    }));

  test('restarts the pod of a file system that does not grow, once, and not before resizeRestartAfter', () =>
    run(async (world) => {
      await world.apply({}, { replicas: 2, resizeRestartAfter: '60s' });
      await world.kind.advance(10);
      const [first, second] = [world.pod(0).metadata.uid, world.pod(1).metadata.uid];
      await world.apply({}, { replicas: 2, resizeRestartAfter: '60s', dbSize: '2Gi' });
      await world.grows({ capacity: { storage: '2Gi' } }, 0);
      await world.grows({ conditions: pending(now()) }, 1);
      await world.kind.advance(50);
      expect(world.pod(1).metadata.uid).toBe(second);
      await world.kind.advance(20);
      expect(world.pod(1).metadata.uid).not.toBe(second);
      expect(world.kind.events).toContain('Normal PodRestarted');
      const restarted = world.pod(1).metadata.uid;
      await world.kind.advance(300);
      expect([world.kind.reason('VolumeResizing'), world.pod(0).metadata.uid, world.pod(1).metadata.uid]).toEqual([
        ...['ResizeFailing', first, restarted],
      ]);
      expect(world.kind.notes('PodRestarted')).toHaveLength(1);
    }));
});

test('a claim in use that somebody deletes is warned of, and no pod is replaced before the data is saved', () =>
  run(async (world) => {
    await world.apply();
    const [pod, claim] = [world.pod(), world.claim()];
    await world.kind.client.delete(PersistentVolumeClaim, claim.metadata);
    await world.kind.settle();
    expect([world.kind.reason(), world.kind.reason('DatabaseReady')]).toEqual([
      'ClaimBeingDeleted',
      'ClaimBeingDeleted',
    ]);
    expect(world.kind.events).toContain('Warning ClaimBeingDeleted');
    await world.apply({}, { tag: 'two' });
    expect([imageOf(world.get(StatefulSet, 'shop-db')), world.pod().metadata.uid]).toEqual([
      'example.com/db:latest',
      pod.metadata.uid,
    ]);
    expect(world.kind.status.volumes).toEqual([{ claim: 'data-shop-db-0', capacity: '1Gi' }]);
    world.workloads.isStopped = true;
    await world.kind.client.delete(Pod, pod.metadata);
    await world.kind.hold(PersistentVolumeClaim, claim, []);
    world.workloads.isStopped = false;
    await world.kind.settle();
    expect([world.pod().spec?.containers[0]?.image, world.kind.reason()]).toEqual(['example.com/db:two', 'AllReady']);
    expect(world.claim().metadata.uid).not.toBe(claim.metadata.uid);
  }));

describe('the data', () => {
  const isGone = (world: World): boolean => world.find(BookStore, 'shop') === undefined;
  const remove = (world: World) => world.remove(BookStore, 'shop');

  test('is retained by default, and taken up by the next BookStore of the name, larger if it asks for more', () =>
    run(async (world) => {
      await world.apply({}, { replicas: 2, dbSize: '2Gi' });
      const uids = [0, 1].map((ordinal) => world.claim(ordinal).metadata.uid);
      await remove(world);
      await world.kind.settle();
      expect([
        isGone(world),
        ...[Deployment, StatefulSet, Service, Pod].map(
          (kind) => world.kind.simulation.objects<KubeObject>(kind).length,
        ),
      ]).toEqual([true, 0, 0, 0, 0]);
      // A volume never shrinks.
      await world.apply({}, { dbSize: '1Gi' });
      expect(world.kind.status.volumes).toEqual([{ claim: 'data-shop-db-0', capacity: '2Gi' }]);
      await remove(world);
      await world.apply({}, { dbSize: '3Gi' });
      expect([0, 1].map(world.request)).toEqual(['3Gi', '3Gi']);
      expect([0, 1].map((ordinal) => world.claim(ordinal).metadata.uid)).toEqual(uids);
    }));

  test('goes with the BookStore where its policy is Delete, and with nothing else', () =>
    run(async (world) => {
      await world.apply({}, { replicas: 2, reclaimPolicy: 'Delete' });
      const finalizers = () => world.kind.object.metadata.finalizers ?? [];
      expect(finalizers()).toEqual(['blog.velotio.com/delete-data']);
      await world.remove(StatefulSet, 'shop-db');
      await world.apply({}, { reclaimPolicy: 'Delete' });
      expect(
        world.kind.simulation.objects(PersistentVolumeClaim).map(({ metadata }) => metadata.deletionTimestamp),
      ).toEqual([undefined, undefined]);
      await world.apply({}, { reclaimPolicy: 'Retain' });
      expect(finalizers()).toEqual([]);
      await world.apply({}, { reclaimPolicy: 'Delete' });
      await remove(world);
      await world.kind.settle();
      expect([isGone(world), world.kind.simulation.objects(PersistentVolumeClaim)]).toEqual([true, []]);
    }));

  test('of an earlier BookStore of the name is kept, and an Event names it', () =>
    run(async (world) => {
      await world.apply();
      await remove(world);
      await world.apply({}, { reclaimPolicy: 'Delete', replicas: 2 });
      await remove(world);
      await world.kind.settle();
      expect(world.kind.simulation.objects(PersistentVolumeClaim).map(({ metadata }) => metadata.name)).toEqual([
        'data-shop-db-0',
      ]);
      expect(world.kind.notes('DataKept')).toEqual([expect.stringContaining('kept claims data-shop-db-0 despite')]);
    }));

  test('waits for what the API server refuses, and the status quotes it', () =>
    run(async (world) => {
      await world.apply({}, { reclaimPolicy: 'Delete' });
      world.kind.refuse = ({ verb, kind }) =>
        verb === 'delete' && kind === StatefulSet ? forbidden('not here') : undefined;
      await remove(world);
      expect([world.kind.reason(), world.kind.reason('VolumeResizing')]).toEqual(['Refused', 'VolumesNotChecked']);
      expect(world.kind.message()).toContain('not here');
      world.kind.refuse = () => undefined;
      await world.kind.advance(90);
      expect([isGone(world), world.kind.simulation.objects(PersistentVolumeClaim)]).toEqual([true, []]);
    }));

  test.each([
    ['the policy was changed to Retain', 'Delete', 'Retain'],
    ['it was changed to Delete in a moment in which no operator saw it', 'Retain', 'Delete'],
  ])('stays where %s and the BookStore deleted at once', (_, before, after) =>
    run(async (world) => {
      await world.apply({}, { reclaimPolicy: before });
      for (const process of world.kind.simulation.processes) world.kind.simulation.crash(process);
      const body = { spec: { bookDB: { reclaimPolicy: after } } };
      await world.kind.client.patch(BookStore, world.kind.key, { type: 'merge', body });
      await world.kind.client.delete(BookStore, world.kind.key);
      await world.kind.simulation.start();
      await world.kind.settle();
      expect([isGone(world), world.claim().metadata.deletionTimestamp]).toEqual([true, undefined]);
    }),
  );

  test('stays, and the StatefulSet too, where the BookStore is deleted with --cascade=orphan', () =>
    run(async (world) => {
      await world.apply({}, { reclaimPolicy: 'Delete' });
      await world.kind.client.delete(BookStore, world.kind.key, { propagationPolicy: 'Orphan' });
      await world.kind.settle();
      expect(isGone(world)).toBe(true);
      expect([
        world.get(StatefulSet, 'shop-db').metadata.deletionTimestamp,
        world.claim().metadata.deletionTimestamp,
      ]).toEqual([undefined, undefined]);
    }));
});
