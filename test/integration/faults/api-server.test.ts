import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ClusterRoleBinding, ServiceAccount } from '@echoperator/runtime/kinds';
import { FaultProxy, isWatch } from '@echoperator/testing';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { Echo } from '../../../src/kinds/echo/kind.ts';
import { eventually } from '../../../testkit/eventually.ts';
import {
  client,
  folder,
  heapBefore,
  namespace,
  server,
  setUp,
  startSubject,
  stopSubject,
  tearDown,
  world,
} from './environment/own-api-server.ts';

beforeAll(() => setUp());
afterAll(() => tearDown());
afterEach(() => stopSubject());

async function isAway(): Promise<boolean> {
  return client.list(Echo, { limit: 1 }).then(
    () => false,
    () => true,
  );
}

test('an informer has all objects after the API server was stopped and started', async () => {
  const running = await startSubject();
  await server.stop();
  expect(await isAway()).toBe(true);
  await eventually('the subject has noticed', async () => (await running.ask('warnings')).length > 0);
  await server.restart();
  await world.change();
  await world.converge(running);
  await world.heapIsAsBefore(running, heapBefore);
});

test('an informer continues after its token expired before a new one was written', async () => {
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
  // Renewed while the subject starts, however long a busy machine takes for that, and then no more.
  const started = new AbortController();
  const renewed = (async () => {
    while (!started.signal.aborted) {
      await delay(1_000, undefined, { signal: started.signal }).catch(() => {});
      await project(5_000);
    }
  })();
  const running = await startSubject(proxy.connection, { serviceAccount }).finally(() => started.abort());
  await renewed;
  // A single Echo, because the server caches the validity of a token for ten seconds.
  await eventually('the token has expired', async () => {
    await world.write('echo-0');
    return proxy.responses(401) >= 5;
  });
  await eventually('both kinds are watched', async () => proxy.watches === 2);
  const cut = proxy.inject({ type: 'cut', how: 'reset' }, { on: isWatch, times: 2 });
  await world.change();
  expect(cut.count).toBe(2);
  await project(600_000);
  await world.converge(running);
  await world.heapIsAsBefore(running, heapBefore);
  await running.stop();
});
