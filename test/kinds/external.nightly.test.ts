import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { CoreV1Event, V1Pod } from '@kubernetes/client-node';
import type { Pet } from '../../src/kinds/pet/kind.ts';
import { eventually } from '../../testkit/eventually.ts';
import { Cluster } from '../../tools/cluster/index.ts';
import { listOf } from '../e2e/environment/cluster.ts';
import { signalAll } from '../e2e/environment/process-state.ts';
import { cluster, connect, deleteNamespaces, namespace } from './environment/cluster.ts';
import { allReady, getPet, line, pet, pets, release, rows, storePod, writer } from './environment/external.ts';

beforeAll(connect);

afterAll(deleteNamespaces);

test("pets are kept when the pet store's pod is killed, and a change that was made meanwhile arrives", async () => {
  const ns = await namespace();
  await cluster.apply(listOf(['keto', 'laika'].map((name) => pet(name, ns, {}))));
  await allReady('pets', ns);
  const [keto, laika] = [await getPet('keto', ns), await getPet('laika', ns)];
  const store = await cluster.get<V1Pod>(`pod/${storePod}`, '--namespace', release);
  const nodes = await Cluster.find('kinds');
  signalAll(await nodes.containerProcesses(store.status?.containerStatuses?.[0]?.containerID ?? ''), 'SIGKILL');
  await cluster.kubectl(['delete', 'pod', storePod, '--namespace', release, '--wait=false']);
  await cluster.apply(pet('laika', ns, { type: 'reptile' }));
  const found = await eventually(
    'another pod has the pets',
    async () => {
      const { metadata } = await cluster.get<V1Pod>(`pod/${storePod}`, '--namespace', release);
      return metadata?.uid !== store.metadata?.uid && pets('--name', 'keto', '--name', 'laika');
    },
    90_000,
  );
  expect(found).toContain(line(keto));
  const changed = line({ ...laika, spec: { ...laika.spec, type: 'reptile' } });
  await eventually('the change has arrived', async () => (await pets('--name', 'laika')).includes(changed), 60_000);
  const { items } = await cluster.get<{ items: CoreV1Event[] }>('events', '--namespace', ns);
  expect(items.filter(({ reason }) => reason === 'PetLost')).toEqual([]);
});

test('a namespace with 200 PostgresWriters and 200 Pets is deleted at once, and with it all that they made', async () => {
  const ns = await namespace();
  const names = Array.from({ length: 200 }, (_, i) => `${ns}-${i}`);
  await cluster.apply(listOf(names.flatMap((name) => [writer(name, ns, {}), pet(name, ns, { type: 'cat' })])));
  await Promise.all([allReady('postgreswriters', ns), allReady('pets', ns)]);
  const own = async () => (await pets('--type', 'cat')).filter((each) => each.includes(ns));
  expect(await rows(ns)).toHaveLength(names.length);
  const stored = (await cluster.get<{ items: Pet[] }>('pets', '--namespace', ns)).items;
  expect((await own()).toSorted()).toEqual(stored.map(line).sort());

  await cluster.kubectl(['delete', 'namespace', ns, '--timeout=180s']);
  expect(await rows(ns)).toEqual([]);
  expect(await own()).toEqual([]);
});
