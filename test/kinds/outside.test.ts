import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { CoreV1Event, V1Pod } from '@kubernetes/client-node';
import type { Pet } from '../../src/api/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import { Cluster } from '../../tools/cluster/index.ts';
import { E2eCluster, listOf } from '../e2e/environment/cluster.ts';
import { Database } from '../e2e/environment/database.ts';
import { DocumentedSteps } from '../e2e/environment/documented.ts';
import { signalAll } from '../e2e/environment/process-state.ts';

const root = join(import.meta.dirname, '../..');
const release = process.env.KINDS_RELEASE_NAMESPACE ?? '';
const storePod = 'echoperator-petstore-0';

let cluster: E2eCluster;
let database: Database;
let ofRows: DocumentedSteps;
let ofPets: DocumentedSteps;
const namespaces: string[] = [];

beforeAll(async () => {
  cluster = await E2eCluster.connect();
  database = Database.in(cluster);
  ofRows = await DocumentedSteps.of('postgres-writer.md');
  ofPets = await DocumentedSteps.of('pet.md');
});

afterAll(async () => {
  const examples = ['examples/postgres-writer.yaml', 'examples/pet.yaml'].map(
    (file) => `--filename=${join(root, file)}`,
  );
  await cluster.kubectl(['delete', '--ignore-not-found', ...examples, '--timeout=60s']);
  for (const name of namespaces) await cluster.deleteNamespace(name);
});

async function namespace(): Promise<string> {
  const name = await cluster.namespace();
  namespaces.push(name);
  return name;
}

/** What the one command of a page that begins so prints. */
async function follow(steps: DocumentedSteps, beginning: string): Promise<string> {
  const [command = '', ...others] = steps.commands(beginning);
  expect(others).toEqual([]);
  return cluster.shell(command, root);
}

/** What psql shows of the rows that PostgresWriters of a namespace have, a line each. */
async function rows(namespace: string): Promise<readonly string[]> {
  const query = `SELECT * FROM students WHERE id LIKE '${namespace}/%' ORDER BY id`;
  return lines(await database.psql(['--tuples-only', '--no-align', `--command=${query}`]));
}

/** What the store's command line lists in its pod. */
async function pets(...filter: readonly string[]): Promise<readonly string[]> {
  const list = ['/usr/local/bin/node', '/app/main.js', 'list', ...filter];
  return lines(await cluster.kubectl(['exec', storePod, '--namespace', release, '--', ...list]));
}

const lines = (text: string): readonly string[] => text.split('\n').filter((line) => line !== '');

/** As the command line shows it. */
const line = ({ status, spec }: Pet): string =>
  `${status?.id}  ${spec.birthday.slice(0, 10)}  ${spec.type.padEnd(7)}  ${spec.name}`;

const writer = (name: string, namespace: string, spec: object): object => ({
  apiVersion: 'demo.yash.com/v1',
  kind: 'PostgresWriter',
  metadata: { name, namespace },
  spec: { table: 'students', name, age: 20, country: 'Spain', ...spec },
});

const pet = (name: string, namespace: string, spec: object): object => ({
  apiVersion: 'petstore.example.com/v1alpha1',
  kind: 'Pet',
  metadata: { name, namespace },
  spec: { name, type: 'dog', birthday: '2021-04-01T00:00:00Z', ...spec },
});

const getPet = (name: string, namespace: string) => cluster.get<Pet>(`pet/${name}`, '--namespace', namespace);

const allReady = (kind: string, namespace: string) =>
  cluster.kubectl([...['wait', '--for=condition=Ready', kind, '--all', '--namespace', namespace, '--timeout=120s']]);

describe('the examples', () => {
  test('of PostgresWriters: psql shows the row, as it is, as it becomes, and that it goes', async () => {
    await follow(ofRows, 'kubectl apply');
    await follow(ofRows, 'kubectl wait');
    expect(await rows('default')).toEqual(['default/sample-student|Alice|23|Spain']);
    await cluster.kubectl(['patch', 'postgreswriter/sample-student', '--type=merge', '--patch={"spec":{"age":24}}']);
    await eventually('the row is older', async () => (await rows('default'))[0]?.includes('|24|'));
    await cluster.kubectl(['delete', 'postgreswriter/sample-student', '--timeout=60s']);
    expect(await rows('default')).toEqual([]);
  });

  test("of Pets: the store's command line shows the pets, as they are, as they become, and that they go", async () => {
    await follow(ofPets, 'kubectl apply');
    await follow(ofPets, 'kubectl wait');
    const [thor, tron] = [await getPet('pet-sample1', 'default'), await getPet('pet-sample2', 'default')];
    const listed = lines(await follow(ofPets, 'kubectl --namespace echoperator exec'));
    expect(listed).toEqual(expect.arrayContaining([line(thor), line(tron)]));
    const header = (await follow(ofPets, 'kubectl get pets')).split('\n')[0];
    expect(header?.split(/\s+/)).toEqual(['NAME', 'NAME', 'TYPE', 'ID', 'READY', 'AGE']);

    await cluster.kubectl(['patch', 'pet/pet-sample2', '--type=merge', '--patch={"spec":{"type":"bird"}}']);
    const changed = line({ ...tron, spec: { ...tron.spec, type: 'bird' } });
    await eventually('Tron is a bird', async () => (await pets('--name', 'Tron')).includes(changed));
    await cluster.kubectl(['delete', 'pet/pet-sample1', 'pet/pet-sample2', '--timeout=60s']);
    expect(await pets('--name', 'Thor', '--name', 'Tron')).toEqual([]);
  });
});

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
