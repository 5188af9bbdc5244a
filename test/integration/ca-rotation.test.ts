import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { done } from '@echoperator/runtime';
import { type ConnectedClient, createClient } from '@echoperator/runtime/client';
import { ClusterRoleBinding, ConfigMap, Lease, ServiceAccount } from '@echoperator/runtime/kinds';
import { connectOperator } from '@echoperator/runtime/process';
import { ApiServer } from '@echoperator/testing';
import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals';
import { inClusterConnection } from '../../packages/runtime/src/client/in-cluster.ts';
import { apiServerPrograms } from '../../testkit/api-server-programs.ts';
import { eventually } from '../../testkit/eventually.ts';
import { freePorts } from '../../testkit/free-ports.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';

const namespace = 'default';
/** OpenSSL's error for a certificate of an unknown authority. */
const untrusted = 'UNABLE_TO_VERIFY_LEAF_SIGNATURE';
const lease = { namespace, name: 'operator' };

let folder: string;
let server: ApiServer;
const clients: ConnectedClient[] = [];
let stop: AbortController;
let running: Promise<void>;

beforeAll(async () => {
  folder = await mkdtemp(join(process.env.INTEGRATION_FOLDER!, 'ca-rotation-'));
  const [port] = await freePorts();
  server = await ApiServer.start({ assets: await apiServerPrograms(folder), folder, port, stopTimeoutMs: 1_000 });
});
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await server?.close();
  await rm(folder, { recursive: true });
});
afterEach(async () => {
  jest.restoreAllMocks();
  stop.abort();
  await running.catch(() => {});
});

function administrator(ca: string): ConnectedClient {
  const { connection } = server;
  const client = createClient({ ...connection, tls: { ...connection.tls, ca } }, { fieldManager: 'test' });
  clients.push(client);
  return client;
}

/** Writes the files that the kubelet mounts into a pod whose service account may do anything. */
async function mountServiceAccount(directory: string, client: ConnectedClient): Promise<void> {
  const name = 'operator';
  const { metadata } = await client.create(ServiceAccount, { metadata: { namespace, name } });
  await client.create(ClusterRoleBinding, {
    metadata: { name },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', name, namespace }],
  });
  await mkdir(directory);
  await writeFile(join(directory, 'ca.crt'), server.tls.ca);
  const token = await server.signToken({ namespace, name, uid: metadata.uid, validForMs: 3_600_000 });
  await writeFile(join(directory, 'token'), token);
}

test('a standby in a pod reads the rotated CA, and can lead', async () => {
  const before = administrator(server.tls.ca);
  const directory = join(folder, 'service-account');
  await mountServiceAccount(directory, before);
  const spec = { holderIdentity: 'other', leaseDurationSeconds: 3600, renewTime: '2026-01-01T00:00:00.000000Z' };
  await before.create(Lease, { metadata: lease, spec });
  const environment = { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: server.connection.server.port };
  const connection = await inClusterConnection(environment, directory);
  const log = new RecordingLog();
  const operator = await connectOperator({ name: 'greeter', connection, log, leaderElection: { lease } });
  const reconciled: string[] = [];
  operator.manager.controller(ConfigMap, {
    reconcile: async ({ name }) => {
      reconciled.push(name);
      return done;
    },
  });
  stop = new AbortController();
  running = operator.run(stop.signal);
  running.catch(() => {});
  await eventually('it stands by', async () => operator.readiness().ready);

  await server.stop();
  const authority = await server.replaceServingCertificate();
  await server.restart();
  await eventually('it does not trust the server', async () =>
    log.lines.some(({ details }) => (details.err as { code?: unknown } | undefined)?.code === untrusted),
  );
  await writeFile(join(directory, 'ca.crt'), `${server.tls.ca}\n${authority}`);
  const now = performance.now.bind(performance);
  jest.spyOn(performance, 'now').mockImplementation(() => now() + 60_000);

  const after = administrator(authority);
  await after.patch(Lease, lease, { type: 'merge', body: { spec: { holderIdentity: '' } } });
  await eventually('it leads', async () => operator.elector?.isLeading);
  await after.create(ConfigMap, { metadata: { namespace, name: 'after-the-rotation' } });
  await eventually('it reconciles', async () => reconciled.includes('after-the-rotation'));
  expect(operator.readiness().ready).toBe(true);
});
