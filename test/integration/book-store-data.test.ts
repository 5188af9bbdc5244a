import { findCondition } from '@echoperator/runtime';
import { ConfigMap, Event, PersistentVolumeClaim, Pod, Service, StatefulSet } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { BookStore } from '../../src/kinds/book-store/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { forbid } from './environment/admission-policy.ts';
import {
  apply,
  childOf,
  claimOf,
  cluster,
  deploymentOf,
  growable,
  growOnline,
  imageOf,
  merge,
  operator,
  podOf,
  reconciled,
  requestOf,
  settled,
  setUp,
  spec,
  startOperator,
  statefulSetOf,
  stopOperator,
  tearDown,
  triggerReconcile,
  unlessAbsent,
  type World,
  world,
} from './environment/book-store-world.ts';

beforeAll(() => setUp('book-store-data'));
afterAll(() => tearDown());

const claimSpec = () => ({
  accessModes: ['ReadWriteOnce'],
  resources: { requests: { storage: '1Gi' } },
  storageClassName: growable,
});

const bookStoreIsGone = ({ key }: World) =>
  eventually(
    'the BookStore is gone',
    async () => (await unlessAbsent(cluster.client.get(BookStore, key))) === undefined,
  );

/** What the Event says that names the claims that a deletion with the policy Delete keeps. */
const dataKept = ({ key }: World) =>
  eventually('an Event names what is kept', async () => {
    const { items } = await cluster.client.list(Event, { namespace: key.namespace });
    return items.find(({ reason }) => reason === 'DataKept')?.note;
  });

describe('the data', () => {
  test('is retained by default, and taken up by the next BookStore of the name', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { replicas: 2 }));
    await settled(at, 'IndependentDatabases');
    const before = [await claimOf(at.key, 0), await claimOf(at.key, 1)];
    expect(before.flatMap(({ metadata }) => metadata.ownerReferences ?? [])).toEqual([]);
    await cluster.client.delete(BookStore, at.key);
    await eventually('all else is gone', async () => {
      const left = [
        await unlessAbsent(deploymentOf(at.key)),
        await unlessAbsent(statefulSetOf(at.key)),
        await unlessAbsent(podOf(at.key)),
        await unlessAbsent(childOf(Service, at.key, 'bookstore-svc')),
        await unlessAbsent(childOf(Service, at.key, 'mongodb-service')),
      ];
      return left.every((each) => each === undefined);
    });
    await apply(at.key, spec({}, { dbSize: '2Gi' }));
    await growOnline(at, '2Gi', [0]);
    await settled(at);
    for (const [ordinal, { metadata }] of before.entries()) {
      const claim = await claimOf(at.key, ordinal);
      expect(claim.metadata.uid).toBe(metadata.uid);
      expect(claim.spec?.resources?.requests?.storage).toBe('2Gi');
    }
  });

  test('larger than asked for stays as large', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { dbSize: '3Gi' }));
    await settled(at);
    await cluster.client.delete(BookStore, at.key);
    await eventually('it is gone', async () => (await unlessAbsent(statefulSetOf(at.key))) === undefined);
    await apply(at.key, spec({}, { dbSize: '1Gi' }));
    expect((await settled(at)).status?.volumes).toEqual([{ claim: 'data-shop-db-0', capacity: '3Gi' }]);
    expect(await requestOf(at.key)).toBe('3Gi');
  });

  test('is there at once for a BookStore that takes the place of another, which is no fight over names', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    const before = (await claimOf(at.key)).metadata.uid;
    await cluster.client.delete(BookStore, at.key);
    await apply(at.key, spec());
    await settled(at);
    expect((await claimOf(at.key)).metadata.uid).toBe(before);
    const { items } = await cluster.client.list(Event, { namespace: at.key.namespace });
    expect(items.map(({ reason }) => reason)).not.toContain('NameTaken');
  });

  test('goes with the BookStore where its policy is Delete, and with nothing else', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { replicas: 2, reclaimPolicy: 'Delete' }));
    await settled(at, 'IndependentDatabases');
    const finalizers = async () => (await cluster.client.get(BookStore, at.key)).metadata.finalizers ?? [];
    expect(await finalizers()).toEqual(['blog.velotio.com/delete-data']);
    const { uid } = (await claimOf(at.key)).metadata;

    // Not with the StatefulSet, and not with a replica.
    const before = (await statefulSetOf(at.key)).metadata.uid;
    await cluster.client.delete(StatefulSet, { ...at.key, name: 'shop-db' });
    await eventually('another StatefulSet', async () => {
      const next = await unlessAbsent(statefulSetOf(at.key));
      return next !== undefined && next.metadata.uid !== before;
    });
    await settled(at, 'IndependentDatabases');
    await apply(at.key, spec({}, { replicas: 1, reclaimPolicy: 'Delete' }));
    await settled(at);
    for (const ordinal of [0, 1]) expect((await claimOf(at.key, ordinal)).metadata.deletionTimestamp).toBeUndefined();
    expect((await claimOf(at.key)).metadata.uid).toBe(uid);

    await apply(at.key, spec({}, { reclaimPolicy: 'Retain' }));
    await eventually('nothing waits for the data', async () => (await finalizers()).length === 0);
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
    await eventually('it is waited for', async () => (await finalizers()).length === 1);
    await settled(at);
    await cluster.client.delete(BookStore, at.key);
    const isGone = async (ordinal: number) => (await unlessAbsent(claimOf(at.key, ordinal))) === undefined;
    await eventually('the claims are gone', async () => (await isGone(0)) && (await isGone(1)));
    await eventually(
      'the BookStore is gone',
      async () => (await unlessAbsent(cluster.client.get(BookStore, at.key))) === undefined,
    );
  });

  test("of a StatefulSet that is not the BookStore's is kept where the policy is Delete", async () => {
    const at = await world('shop');
    const labels = { app: 'foreign' };
    await cluster.client.create(StatefulSet, {
      metadata: { ...at.key, name: 'shop-db' },
      spec: {
        serviceName: 'foreign',
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [{ name: 'c', image: 'example.com/c' }] } },
        volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: claimSpec() }],
      },
    });
    await eventually(
      'its claim is bound',
      async () => (await unlessAbsent(claimOf(at.key)))?.status?.phase === 'Bound',
    );
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
    await settled(at, 'NameTaken');
    await cluster.client.delete(BookStore, at.key);
    await bookStoreIsGone(at);
    expect((await claimOf(at.key)).metadata.deletionTimestamp).toBeUndefined();
    expect((await statefulSetOf(at.key)).metadata.deletionTimestamp).toBeUndefined();
    const note = await dataKept(at);
    expect(note).toContain('data-shop-db-0');
    expect(note).toContain('StatefulSet shop-db');
  });

  test('that was there before the BookStore is kept where the policy is Delete', async () => {
    const at = await world('shop');
    // As from a snapshot: it has no label of a StatefulSet's.
    await cluster.client.create(PersistentVolumeClaim, {
      metadata: { ...at.key, name: 'data-shop-db-0' },
      spec: claimSpec(),
    });
    await apply(at.key, spec({}, { replicas: 2, reclaimPolicy: 'Delete' }));
    await settled(at, 'IndependentDatabases');
    await cluster.client.delete(BookStore, at.key);
    await bookStoreIsGone(at);
    await eventually(
      'the claim that was created for it is gone',
      async () => (await unlessAbsent(claimOf(at.key, 1))) === undefined,
      60_000,
    );
    expect((await claimOf(at.key)).metadata.deletionTimestamp).toBeUndefined();
    const note = await dataKept(at);
    expect(note).toContain('data-shop-db-0');
    expect(note).not.toContain('data-shop-db-1');
  });

  test('of a BookStore of the same name before is kept where the policy is Delete', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    const { uid } = (await claimOf(at.key)).metadata;
    await cluster.client.delete(BookStore, at.key);
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
    await settled(at);
    await cluster.client.delete(BookStore, at.key);
    await bookStoreIsGone(at);
    const claim = await claimOf(at.key);
    expect([claim.metadata.uid, claim.metadata.deletionTimestamp]).toEqual([uid, undefined]);
    expect(await dataKept(at)).toContain('data-shop-db-0');
  });

  test('stays, and the StatefulSet too, where the BookStore is deleted with --cascade=orphan', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
    await settled(at);
    const before = await statefulSetOf(at.key);
    await cluster.client.delete(BookStore, at.key, { propagationPolicy: 'Orphan' });
    await bookStoreIsGone(at);
    const after = await statefulSetOf(at.key);
    expect([after.metadata.uid, after.metadata.deletionTimestamp]).toEqual([before.metadata.uid, undefined]);
    expect((await claimOf(at.key)).metadata.deletionTimestamp).toBeUndefined();
  });

  test('stays where the garbage collector has orphaned the StatefulSet before the operator has seen the deletion', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
    await settled(at);
    await stopOperator('SIGKILL');
    try {
      await cluster.client.delete(BookStore, at.key, { propagationPolicy: 'Orphan' });
      await eventually('the StatefulSet has no owner', async () => {
        const { finalizers = [] } = (await cluster.client.get(BookStore, at.key)).metadata;
        return !finalizers.includes('orphan') && (await statefulSetOf(at.key)).metadata.ownerReferences === undefined;
      });
    } finally {
      await startOperator();
    }
    await bookStoreIsGone(at);
    expect((await statefulSetOf(at.key)).metadata.deletionTimestamp).toBeUndefined();
    expect((await claimOf(at.key)).metadata.deletionTimestamp).toBeUndefined();
  });

  test('stays where the StatefulSet was orphaned, and then removed without its pods, while no operator ran', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
    await settled(at);
    await stopOperator('SIGKILL');
    try {
      await cluster.client.delete(BookStore, at.key, { propagationPolicy: 'Orphan' });
      await eventually('the StatefulSet has no owner', async () => {
        const { finalizers = [] } = (await cluster.client.get(BookStore, at.key)).metadata;
        return !finalizers.includes('orphan') && (await statefulSetOf(at.key)).metadata.ownerReferences === undefined;
      });
      await cluster.client.delete(StatefulSet, { ...at.key, name: 'shop-db' }, { propagationPolicy: 'Orphan' });
      await eventually('it is gone', async () => (await unlessAbsent(statefulSetOf(at.key))) === undefined);
    } finally {
      await startOperator();
    }
    await bookStoreIsGone(at);
    expect((await podOf(at.key)).metadata.deletionTimestamp).toBeUndefined();
    expect((await unlessAbsent(claimOf(at.key)))?.metadata).toMatchObject({ name: 'data-shop-db-0' });
    expect((await claimOf(at.key)).metadata.deletionTimestamp).toBeUndefined();
  });

  test('is deleted once the API server no longer refuses that; until then the status quotes the refusal', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
    await settled(at);
    const trial = { ...at.key, name: 'trial' };
    const manifest = {
      metadata: trial,
      spec: {
        selector: { matchLabels: { app: 'trial' } },
        template: { metadata: { labels: { app: 'trial' } }, spec: { containers: [{ name: 'c', image: 'any' }] } },
        replicas: 0,
      },
    };
    const forbidden = await forbid(cluster.client, {
      namespace: at.key.namespace,
      operation: 'DELETE',
      resource: 'statefulsets',
      expression: 'false',
      message: 'no StatefulSet is deleted here',
      trial: async () => {
        const there = await unlessAbsent(cluster.client.get(StatefulSet, trial));
        if (there === undefined) await cluster.client.create(StatefulSet, manifest);
        await cluster.client.delete(StatefulSet, trial);
      },
    });
    try {
      await cluster.client.delete(BookStore, at.key);
      const { status } = await settled(at, 'Refused');
      expect(findCondition(status?.conditions, 'Ready')?.message).toContain('no StatefulSet is deleted here');
      expect(findCondition(status?.conditions, 'VolumeResizing')?.status).toBe('Unknown');
    } finally {
      await forbidden.remove();
    }
    await eventually('its claim is gone', async () => (await unlessAbsent(claimOf(at.key))) === undefined);
    await bookStoreIsGone(at);
  });

  test('stays where the policy says so in the moment of the deletion, also if nobody has seen that before', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
    await settled(at);
    const { uid } = (await claimOf(at.key)).metadata;
    await stopOperator('SIGKILL');
    try {
      await apply(at.key, spec({}, { reclaimPolicy: 'Retain' }));
      await cluster.client.delete(BookStore, at.key);
    } finally {
      await startOperator();
    }
    await eventually(
      'it is gone',
      async () => (await unlessAbsent(cluster.client.get(BookStore, at.key))) === undefined,
    );
    await eventually('its pod is gone', async () => (await unlessAbsent(podOf(at.key))) === undefined);
    const claim = await claimOf(at.key);
    expect([claim.metadata.uid, claim.metadata.deletionTimestamp]).toEqual([uid, undefined]);
  });

  test('stays where its deletion was asked for in a moment in which nobody saw it: nobody loses it by a slip', async () => {
    const at = await world('shop');
    await apply(at.key, spec());
    await settled(at);
    const { uid } = (await claimOf(at.key)).metadata;
    await stopOperator('SIGKILL');
    try {
      await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
      await cluster.client.delete(BookStore, at.key);
    } finally {
      await startOperator();
    }
    await eventually('its pod is gone', async () => (await unlessAbsent(podOf(at.key))) === undefined);
    const claim = await claimOf(at.key);
    expect([claim.metadata.uid, claim.metadata.deletionTimestamp]).toEqual([uid, undefined]);
  });

  test('stays where the policy was changed to Retain, and the BookStore deleted at once', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
    await settled(at);
    const { uid } = (await claimOf(at.key)).metadata;
    await apply(at.key, spec({}, { reclaimPolicy: 'Retain' }));
    await cluster.client.delete(BookStore, at.key);
    await eventually(
      'it is gone',
      async () => (await unlessAbsent(cluster.client.get(BookStore, at.key))) === undefined,
    );
    await eventually('its pod is gone', async () => (await unlessAbsent(podOf(at.key))) === undefined);
    const claim = await claimOf(at.key);
    expect([claim.metadata.uid, claim.metadata.deletionTimestamp]).toEqual([uid, undefined]);
  });

  test('in a claim that somebody deletes is warned of, and no pod is replaced before it is saved', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { tag: 'one' }));
    await settled(at);
    const [claim, pod] = [await claimOf(at.key), await podOf(at.key)];
    // As one whose pod runs on a node: here is none.
    await merge(PersistentVolumeClaim, claim, { metadata: { finalizers: ['test.example.com/in-use'] } });
    await cluster.client.delete(PersistentVolumeClaim, claim.metadata);
    try {
      // The operator may see a change of the BookStore earlier than the deletion.
      await settled(at, 'ClaimBeingDeleted');
      await apply(at.key, spec({}, { tag: 'two' }));
      const store = await settled(at, 'ClaimBeingDeleted');
      const condition = findCondition(store.status?.conditions, 'DatabaseReady');
      expect(condition).toMatchObject({ status: 'False', reason: 'ClaimBeingDeleted' });
      expect(condition?.message).toContain('data-shop-db-0');
      expect(store.status?.volumes).toEqual([{ claim: 'data-shop-db-0', capacity: '1Gi' }]);
      const warned = await eventually('it is an Event', async () => {
        const { items } = await cluster.client.list(Event, { namespace: at.key.namespace });
        return items.find(({ reason }) => reason === 'ClaimBeingDeleted');
      });
      expect(warned.type).toBe('Warning');
      // Another look changes nothing either.
      const reconciles = await reconciled(operator);
      await triggerReconcile(at.key);
      await eventually('it was reconciled again', async () => (await reconciled(operator)) > reconciles);
      expect(imageOf(await statefulSetOf(at.key))).toBe('example.com/db:one');
      expect((await podOf(at.key)).metadata.uid).toBe(pod.metadata.uid);

      await cluster.client.delete(Pod, pod.metadata, { gracePeriodSeconds: 0 });
    } finally {
      await merge(PersistentVolumeClaim, claim, { metadata: { finalizers: null } });
    }
    await eventually('another pod, with another claim', async () => {
      const next = await unlessAbsent(podOf(at.key));
      return next?.spec?.containers[0]?.image === 'example.com/db:two';
    });
    await settled(at);
    expect((await claimOf(at.key)).metadata.uid).not.toBe(claim.metadata.uid);
  });

  test('of another controller is not used by an additional replica, and the other changes are applied', async () => {
    const at = await world('shop');
    await apply(at.key, spec({}, { tag: 'one' }));
    await settled(at);
    const owner = await cluster.client.create(ConfigMap, { metadata: { ...at.key, name: 'owner' } });
    const { name, uid } = owner.metadata;
    const foreign = await cluster.client.create(PersistentVolumeClaim, {
      metadata: {
        ...at.key,
        name: 'data-shop-db-1',
        ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name, uid, controller: true }],
      },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    });
    await apply(at.key, spec({}, { tag: 'two', replicas: 3 }));
    const store = await settled(at, 'NameTaken');
    expect(findCondition(store.status?.conditions, 'DatabaseReady')?.message).toContain(
      'claim data-shop-db-1 is controlled by ConfigMap ',
    );
    await eventually('the new image runs', async () =>
      (await unlessAbsent(podOf(at.key)))?.spec?.containers[0]?.image?.endsWith(':two'),
    );
    expect((await statefulSetOf(at.key)).spec?.replicas).toBe(1);
    await cluster.client.delete(PersistentVolumeClaim, foreign.metadata);
    await settled(at, 'IndependentDatabases');
    expect((await statefulSetOf(at.key)).spec?.replicas).toBe(3);
  });

  test('is not what only has a name like it', async () => {
    const at = await world('shop');
    const others = ['data-shop-db-00', 'data-shop-db-20261121'];
    for (const name of others) {
      const claim = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } };
      const storageClassName = growable;
      const metadata = { ...at.key, name };
      await cluster.client.create(PersistentVolumeClaim, { metadata, spec: { ...claim, storageClassName } });
    }
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete' }));
    await settled(at);
    await apply(at.key, spec({}, { reclaimPolicy: 'Delete', dbSize: '2Gi' }));
    await growOnline(at, '2Gi');
    await settled(at);
    await cluster.client.delete(BookStore, at.key);
    await eventually('its claim is gone', async () => (await unlessAbsent(claimOf(at.key))) === undefined);
    for (const name of others) {
      const claim = await childOf(PersistentVolumeClaim, at.key, name);
      expect(claim.metadata.deletionTimestamp).toBeUndefined();
      expect(claim.spec?.resources?.requests?.storage).toBe('1Gi');
    }
  });
});
