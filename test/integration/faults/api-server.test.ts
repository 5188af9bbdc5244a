import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { V1ClusterRoleBinding, V1ServiceAccount } from '@kubernetes/client-node';
import { Echo } from '../../../src/api/index.ts';
import { builtInKind, HttpClient, Transport } from '../../../src/runtime/index.ts';
import { ApiServer, eventually, FaultProxy, isWatch } from '../../../src/runtime/testing/index.ts';
import { programs } from '../../../testkit/api-server-programs.ts';
import { SubjectProcess } from './environment/subject-process.ts';
import { World } from './environment/world.ts';

const ServiceAccount = builtInKind<V1ServiceAccount>({
  group: '',
  version: 'v1',
  kind: 'ServiceAccount',
  plural: 'serviceaccounts',
});
const ClusterRoleBinding = builtInKind<V1ClusterRoleBinding>({
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  kind: 'ClusterRoleBinding',
  plural: 'clusterrolebindings',
  scope: 'Cluster',
});

const namespace = 'default';
let folder: string;
let server: ApiServer;
let transport: Transport;
let client: HttpClient;
let world: World;

/** A server of their own, which is theirs to stop. */
beforeAll(async () => {
  folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER!, 'faults-'));
  server = await ApiServer.start({
    assets: await programs(folder),
    folder,
    crds: [join(import.meta.dirname, '../../../crds')],
  });
  transport = new Transport(server.connection, { userAgent: 'test' });
  client = new HttpClient(transport, 'test');
  world = new World(client, namespace);
  await world.populate();
});

afterAll(async () => {
  await transport.close();
  await server.close();
  await rm(folder, { recursive: true });
});

let subject: SubjectProcess | undefined;
let heapBefore: number;

beforeEach(() => {
  subject = undefined;
});

afterEach(async () => {
  await subject?.stop();
});

/** A subject that has kept up, and something behind it. */
async function startSubject(connection = server.connection, rest: object = {}): Promise<SubjectProcess> {
  subject = await SubjectProcess.start({ server: connection.server.href, tls: connection.tls, namespace, ...rest });
  await world.converge(subject);
  await world.change();
  await world.converge(subject);
  heapBefore = await subject.ask('heap');
  return subject;
}

/** A consistent list, of as little as possible. */
async function resourceVersion(): Promise<number> {
  const { metadata } = await client.list(Echo, { namespace, limit: 1 });
  return Number(metadata.resourceVersion);
}

async function isAway(): Promise<boolean> {
  return client.list(Echo, { limit: 1 }).then(
    () => false,
    () => true,
  );
}

test('the API server is stopped and started', async () => {
  const running = await startSubject();
  await server.stop();
  expect(await isAway()).toBe(true);
  await eventually('the subject has noticed', async () => (await running.ask('warnings')).length > 0);
  await server.restart();
  await world.change();
  await world.converge(running);
  await world.heapIsAsBefore(running, heapBefore);
}, 120_000);

test('its etcd is rolled back, and its resourceVersion stays below the old one', async () => {
  const running = await startSubject();
  await server.stop();
  const backup = await server.backUp();
  await server.restart();
  // So much that the server that was set back does not get there in this test.
  for (let round = 0; round < 20; round += 1) await world.change();
  await world.converge(running);
  const last = await resourceVersion();

  await server.stop();
  await server.restore(backup);
  await server.restart();
  expect(await resourceVersion()).toBeLessThan(last);
  // What was written since is gone with it: what counts from now on is what the server has.
  world.forget();
  await world.converge(running);
  await world.change();
  await world.converge(running);
  expect(await resourceVersion()).toBeLessThan(last);
  await world.heapIsAsBefore(running, heapBefore);
}, 180_000);

test('the token of its service account expires before there is a new one', async () => {
  const account = await client.create(ServiceAccount, { metadata: { namespace, name: 'subject' } });
  await client.create(ClusterRoleBinding, {
    metadata: { name: 'subject' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', name: 'subject', namespace }],
  });
  const { uid } = account.metadata;
  const serviceAccount = join(folder, 'serviceaccount');
  await mkdir(serviceAccount);
  await writeFile(join(serviceAccount, 'ca.crt'), server.tls.ca);
  // In one step, as the kubelet does.
  const project = async (validForMs: number): Promise<void> => {
    const token = await server.signToken({ namespace, name: 'subject', uid, validForMs });
    await writeFile(join(serviceAccount, 'token.new'), token);
    await rename(join(serviceAccount, 'token.new'), join(serviceAccount, 'token'));
  };
  await using proxy = await FaultProxy.start({ upstream: server.connection, tls: server.tls });
  await project(5_000);
  const running = await startSubject(proxy.connection, { serviceAccount });
  await eventually('the token has expired', async () => {
    await world.change();
    return proxy.answered(401) >= 5;
  });
  const cut = proxy.inject({ type: 'cut', how: 'reset' }, { on: isWatch, times: 2 });
  await world.change();
  expect(cut.count).toBe(2);
  await project(600_000);
  await world.converge(running);
  await world.heapIsAsBefore(running, heapBefore);
  await running.stop();
}, 120_000);
