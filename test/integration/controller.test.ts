import { cleanedUp, controllerReference, done, finalizer, isControlledBy, Manager } from '@echoperator/runtime';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { adoptAndRelease } from '@echoperator/runtime/controller';
import { ConfigMap, Namespace, Role, RoleBinding, Secret } from '@echoperator/runtime/kinds';
import { Metrics } from '@echoperator/runtime/process';
import { FaultProxy, isWatch } from '@echoperator/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Registry } from 'prom-client';
import { HttpClient } from '../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../packages/runtime/src/client/transport.ts';
import { eventually } from '../../testkit/eventually.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';

let cluster: TestCluster;
let namespace: string;
let manager: Manager;
let log: RecordingLog;
let registry: Registry;
let stop: AbortController;
let running: Promise<void>;

beforeAll(async () => {
  cluster = await TestCluster.connect();
});
beforeEach(async () => {
  namespace = await cluster.namespace();
  log = new RecordingLog();
  registry = new Registry();
  manager = new Manager({ client: cluster.client, log, metrics: new Metrics(registry), drainTimeoutMs: 5000 });
  stop = new AbortController();
  running = Promise.resolve();
});
afterEach(async () => {
  stop.abort();
  await running;
});
afterAll(() => cluster?.close());

const run = (): void => {
  running = manager.run(stop.signal);
};
const mine = () => ({ namespaces: [namespace] });
const key = (name: string) => ({ name, namespace });
const create = (name: string, metadata: Partial<ConfigMap['metadata']> = {}) =>
  cluster.client.create(ConfigMap, { metadata: { ...key(name), ...metadata } });
const isGone = (name: string) => cluster.isGone(() => cluster.client.get(ConfigMap, key(name)));

test('a finalizer is added before the first apply and removed after the cleanup; finalizers of others stay', async () => {
  const ours = 'test.example/ours';
  const others = 'test.example/others';
  const seen: string[] = [];
  const store = manager.informer(ConfigMap, mine()).store;
  manager.controller(ConfigMap, {
    reconcile: async (at, { client }) => {
      const object = at.name === 'guarded' ? store.get(at) : undefined;
      if (object === undefined) return done;
      const note =
        <R>(what: string, result: R) =>
        async (given: ConfigMap) => {
          seen.push(`${what} ${given.metadata.finalizers?.includes(ours)}`);
          return result;
        };
      const [apply, cleanup] = [note('apply', done), note('cleanup', cleanedUp)];
      return finalizer({ client, kind: ConfigMap, object, name: ours, apply, cleanup });
    },
  });
  run();
  await create('guarded', { finalizers: [others] });
  await eventually('it is applied', async () => seen.length > 0);
  expect(seen[0]).toBe('apply true');
  expect((await cluster.client.get(ConfigMap, key('guarded'))).metadata.finalizers).toEqual([others, ours]);
  await cluster.client.delete(ConfigMap, key('guarded'));
  await eventually('ours is off', async () => {
    const { finalizers } = (await cluster.client.get(ConfigMap, key('guarded'))).metadata;
    return finalizers?.length === 1 && finalizers[0] === others;
  });
  expect(seen.filter((each) => each.startsWith('cleanup'))).toEqual(['cleanup true']);
  const body = [{ op: 'remove', path: '/metadata/finalizers' }] as const;
  await cluster.client.patch(ConfigMap, key('guarded'), { type: 'json', body });
  await eventually('it is gone', () => isGone('guarded'));
  expect(log.messages('error')).toEqual([]);
});

test('a finalizer is not added to an object that changed since it was read', async () => {
  const object = await create('changed');
  await cluster.client.patch(ConfigMap, key('changed'), { type: 'merge', body: { data: { a: 'b' } } });
  const options = { client: cluster.client, kind: ConfigMap, object, name: 'test.example/ours' };
  const never = async () => {
    throw new Error('must not be called');
  };
  await expect(finalizer({ ...options, apply: never, cleanup: never })).rejects.toMatchObject({ reason: 'Conflict' });
});

test('matching orphans are adopted, other children are released, and objects of other owners stay unchanged', async () => {
  const [owner, another] = [await create('owner'), await create('another')];
  const ownerReferences = [controllerReference(ConfigMap, owner)];
  const labels = { belongs: 'yes' };
  const candidates = [
    await create('orphan', { labels }),
    await create('kept', { labels, ownerReferences }),
    await create('leaving', { ownerReferences }),
    await create('others', { labels, ownerReferences: [controllerReference(ConfigMap, another)] }),
  ];
  const { children, errors } = await adoptAndRelease({
    client: cluster.client,
    ownerKind: ConfigMap,
    owner,
    childKind: ConfigMap,
    candidates,
    matches: ({ metadata }) => metadata.labels?.belongs === 'yes',
  });
  expect(errors).toEqual([]);
  expect(children.map(({ metadata }) => metadata.name)).toEqual(['orphan', 'kept']);
  const get = (name: string) => cluster.client.get(ConfigMap, key(name));
  expect(isControlledBy(await get('orphan'), owner)).toBe(true);
  expect((await get('leaving')).metadata.ownerReferences).toBeUndefined();
  expect(isControlledBy(await get('others'), another)).toBe(true);
});

test('a terminating namespace ends a reconcile without an error', async () => {
  let refused = 0;
  await create('going', { finalizers: ['test.example/holds'] });
  manager.informer(ConfigMap, mine());
  manager.controller(ConfigMap, {
    predicate: ({ object }) => object.metadata.name === 'going',
    reconcile: async (_, { client }) => {
      const { deletionTimestamp } = (await client.get(Namespace, { name: namespace })).metadata;
      if (deletionTimestamp === undefined) return done;
      refused += 1;
      await client.create(Secret, { metadata: key('child') });
      return done;
    },
  });
  run();
  await eventually('it is ready', async () => manager.readiness().ready);
  await cluster.client.delete(Namespace, { name: namespace });
  await eventually('it was refused', async () => refused > 0);
  const body = [{ op: 'remove', path: '/metadata/finalizers' }] as const;
  await cluster.client.patch(ConfigMap, key('going'), { type: 'json', body });
  await eventually('it is gone', () => isGone('going'));
  expect(log.lines.filter(({ details }) => 'object' in details)).toEqual([]);
});

test('a terminating namespace does not end the reconcile of an object in another namespace', async () => {
  const namespaces = [await cluster.namespace(), await cluster.namespace(), await cluster.namespace()] as const;
  const [, leaving, last] = namespaces;
  const held = { name: 'held', namespace: leaving };
  await cluster.client.create(ConfigMap, { metadata: { ...held, finalizers: ['test.example/holds'] } });
  await cluster.client.delete(Namespace, { name: leaving });
  let reconciles = 0;
  manager.informer(ConfigMap, mine());
  manager.controller(ConfigMap, {
    predicate: ({ object }) => object.metadata.name === 'owner',
    reconcile: async (_, { client }) => {
      reconciles += 1;
      for (const each of namespaces) {
        const isThere = await client.get(Namespace, { name: each }).catch(() => undefined);
        if (isThere) await client.apply(Secret, { metadata: { name: 'child', namespace: each } }, { force: true });
      }
      return done;
    },
  });
  await create('owner');
  run();
  await eventually('it has failed and was tried again', async () => reconciles > 1);
  const body = [{ op: 'remove', path: '/metadata/finalizers' }] as const;
  await cluster.client.patch(ConfigMap, held, { type: 'json', body });
  await eventually('the last namespace has its child', async () =>
    cluster.client.get(Secret, { name: 'child', namespace: last }).catch(() => undefined),
  );
});

test('a reconcile whose request takes too long is aborted and retried', async () => {
  let begun = 0;
  manager.informer(ConfigMap, mine());
  manager.controller(ConfigMap, {
    reconcileTimeoutMs: 100,
    predicate: ({ object }) => object.metadata.name === 'slow',
    reconcile: async (_, { client, signal }) => {
      begun += 1;
      // A watch of nothing: an answer that does not come.
      const options = { namespace, labelSelector: 'nobody=has-this', timeoutSeconds: 60, signal };
      if (begun === 1) for await (const { type } of client.watch(Secret, options)) expect(type).toBe('BOOKMARK');
      return done;
    },
  });
  run();
  await create('slow');
  await eventually('it is tried again', async () => begun === 2);
  expect(log.messages('error')).toEqual(['reconcile failed: trying again']);
  expect(log.lines.find(({ level }) => level === 'error')?.details.err).toMatchObject({ name: 'TimeoutError' });
});

test('a missing permission on a needed kind fails the run, and its error names the kind, the verb and the scope', async () => {
  const connection = await kubeconfigConnection(cluster.kubeconfig);
  // Anonymous: RBAC gives it nothing.
  const tls = connection.tls.ca === undefined ? {} : { ca: connection.tls.ca };
  const transport = new Transport({ ...connection, tls, authentication: async () => ({}) }, { userAgent: 'test' });
  const client = new HttpClient(transport, 'test');
  const metrics = new Metrics(new Registry());
  try {
    const limited = new Manager({ client, log, metrics, cacheSyncTimeoutMs: 500 });
    limited.informer(Secret, mine());
    await expect(limited.run(stop.signal)).rejects.toMatchObject({
      name: 'CacheSyncError',
      message: expect.stringContaining(`no permission to watch secrets in the namespace ${namespace}`),
    });
    const whole = new Manager({ client, log, metrics: new Metrics(new Registry()), cacheSyncTimeoutMs: 500 });
    whole.informer(ConfigMap, { listing: 'paged' });
    await expect(whole.run(stop.signal)).rejects.toThrow('no permission to list configmaps at the cluster scope');
  } finally {
    await transport.close();
  }
});

describe('half a permission on a needed kind', () => {
  let proxy: FaultProxy;
  let transport: Transport;

  beforeEach(async () => {
    proxy = await FaultProxy.start({ upstream: await kubeconfigConnection(cluster.kubeconfig) });
  });
  afterEach(async () => {
    stop.abort();
    await running;
    await transport.close();
    await proxy.close();
  });

  /** A manager whose user may do only this to ConfigMaps. The API server may learn of the permission a little later. */
  async function limitedManager(verb: string, cacheSyncTimeoutMs: number): Promise<Manager> {
    const metadata = { name: `may-only-${verb}`, namespace };
    const rules = [{ apiGroups: [''], resources: ['configmaps'], verbs: [verb] }];
    await cluster.client.create(Role, { metadata, rules });
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: metadata.name };
    const user = `${metadata.name}.${namespace}`;
    const subjects = [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user }];
    await cluster.client.create(RoleBinding, { metadata, roleRef, subjects });
    const impersonating = { ...proxy.connection, authentication: () => ({ 'Impersonate-User': user }) };
    transport = new Transport(impersonating, { userAgent: 'test' });
    const client = new HttpClient(transport, 'test');
    return new Manager({ client, log, metrics: new Metrics(new Registry()), cacheSyncTimeoutMs });
  }

  test('to watch: the cache is current again after a watch that broke off', async () => {
    const limited = await limitedManager('watch', 60_000);
    const informer = limited.informer(ConfigMap, mine());
    running = limited.run(stop.signal);
    await informer.synced;
    const broken = proxy.inject({ type: 'cut', how: 'reset' }, { on: isWatch, times: 1 });
    await eventually('the watch has broken off', async () => broken.count === 1);
    await create('after');
    await eventually('the cache holds what was created since', async () => informer.store.get(key('after')));
  });

  test('to list: the manager is not ready', async () => {
    const limited = await limitedManager('list', 20);
    const isPermitted = () =>
      new HttpClient(transport, 'test').list(ConfigMap, { namespace }).then(
        () => true,
        () => false,
      );
    await eventually('the permission is known', isPermitted);
    const informer = limited.informer(ConfigMap, {
      ...mine(),
      listing: 'paged',
      backoff: { initialMs: 50, maxMs: 50 },
    });
    running = limited.run(stop.signal);
    await informer.synced;
    await eventually('it is not ready', async () => limited.readiness().waitingFor.includes('configmaps'));
  });
});

describe('while the manager runs', () => {
  test('informers and controllers can be added and removed', async () => {
    await create('there');
    run();
    const informer = manager.informer(ConfigMap, mine());
    await informer.synced;
    expect(informer.store.get(key('there'))).toBeDefined();
    const seen = new Set<string>();
    const handle = manager.controller(ConfigMap, {
      reconcile: async ({ name }) => {
        seen.add(name);
        return done;
      },
    });
    await create('later');
    await eventually('both are reconciled', async () => seen.has('there') && seen.has('later'));
    await handle.remove();
    await create('after');
    await eventually('the informer goes on', async () => informer.store.get(key('after')) !== undefined);
    await manager.release(informer);
    expect(seen.has('after')).toBe(false);
    expect(manager.readiness()).toEqual({ ready: true, waitingFor: [] });
  });
});
