import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { V1PersistentVolumeClaim, V1Pod, V1StorageClassList } from '@kubernetes/client-node';
import { eventually } from '../../testkit/eventually.ts';
import { DocumentedSteps } from '../e2e/environment/documented.ts';
import { cluster, connect } from './environment/cluster.ts';
import { getPet, line, pets, release, storePod } from './environment/external.ts';

/** The commands of the pages that take longer, in the namespaces of the pages. */

const root = join(import.meta.dirname, '../..');
const examples = ['book-store', 'pet'].map((name) => `--filename=${join(root, `examples/${name}.yaml`)}`);

/** Like the repository, with files that a page lets the reader write. */
let folder: string;

beforeAll(connect);

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'commands-'));
  await cp(join(root, 'examples'), join(folder, 'examples'), { recursive: true });
});

afterEach(async () => {
  await cluster.kubectl(['delete', '--ignore-not-found', ...examples, '--timeout=120s']);
  await cluster.kubectl(['delete', 'persistentvolumeclaims', '--all', '--namespace=default', '--timeout=120s']);
  await rm(folder, { recursive: true, force: true });
});

const run = (script: string): Promise<string> => cluster.shell(script, folder);

/** The scripts of a section of a BookStore's page. The release of this suite has the controller already. */
async function scriptsOf(section?: string): Promise<readonly string[]> {
  const { scripts } = await DocumentedSteps.of('book-store.md', section);
  return scripts.map((script) =>
    script.replace(/^helm upgrade (?:.*\\\n)*.*\n/, '').replaceAll('NAME', 'example-bookstore'),
  );
}

const claim = () => cluster.get<V1PersistentVolumeClaim>('pvc/data-example-bookstore-db-0', '--namespace=default');

const database = ['exec', '--namespace=default', 'example-bookstore-db-0', '--', 'redis-cli', '-p', '27017'];
const addBook = (title: string) => cluster.kubectl([...database, 'RPUSH', 'books', title]);
const books = () => cluster.kubectl([...database, 'LRANGE', 'books', '0', '-1']);

async function writeExample(file: string, edit: (text: string) => string): Promise<void> {
  const example = await readFile(join(root, 'examples/book-store.yaml'), 'utf8');
  const edited = edit(example);
  expect(edited).not.toBe(example);
  await writeFile(join(folder, file), edited);
}

test('docs/book-store.md: the example, its growth, and its creation again with the size that it has', async () => {
  const [example = ''] = await scriptsOf();
  expect(await run(example)).toMatch(/example-bookstore +True +1 +1 +2Gi +2Gi +False /);
  await addBook('Nada');
  const [compare = ''] = await scriptsOf('Troubleshooting');
  expect(await run(compare)).toMatch(/^(\d+) \1$/);

  const [grow = '', createAgain = '', ...others] = await scriptsOf('Growing a volume');
  expect(others).toEqual([]);
  await run(grow);
  await eventually('the claim has grown', async () => (await claim()).status?.capacity?.storage === '4Gi', 120_000);

  const { uid } = (await claim()).metadata ?? {};
  await writeExample('book-store-with-the-right-size.yaml', (text) => text.replace('dbSize: 2Gi', 'dbSize: 3Gi'));
  await run(createAgain);
  await cluster.kubectl(['wait', '--for=condition=Ready', 'bookstore/example-bookstore', '--timeout=120s']);
  expect((await claim()).metadata?.uid).toBe(uid);
  expect(await books()).toBe('Nada');
});

test('docs/book-store.md: the data moves to another StorageClass', async () => {
  const [example = ''] = await scriptsOf();
  await run(example);
  await addBook('Tiempo de silencio');
  const before = await claim();
  const { items } = await cluster.get<V1StorageClassList>('storageclasses');
  const [standard] = items;
  await cluster.apply({
    ...standard,
    kind: 'StorageClass',
    apiVersion: 'storage.k8s.io/v1',
    metadata: { name: 'another' },
  });
  try {
    await writeExample('book-store-with-the-new-class.yaml', (text) =>
      text.replace('dbSize: 2Gi', 'dbSize: 2Gi\n    storageClassName: another'),
    );
    const [move = '', ...others] = await scriptsOf('Moving the data to another StorageClass');
    expect(others).toEqual([]);
    await run(move);
    const { spec } = await claim();
    expect([before.spec?.storageClassName, spec?.storageClassName]).toEqual([standard?.metadata?.name, 'another']);
    expect(await books()).toBe('Tiempo de silencio');
    // The old volume is kept until the reader deletes it.
    const old = before.spec?.volumeName ?? '';
    expect(await cluster.kubectl(['get', 'pv', old, '--output=jsonpath={.status.phase}'])).toBe('Released');
    await cluster.kubectl(['patch', 'pv', old, '--patch={"spec":{"persistentVolumeReclaimPolicy":"Delete"}}']);
  } finally {
    await cluster.kubectl(['delete', ...examples.slice(0, 1), '--ignore-not-found', '--timeout=120s']);
    await cluster.kubectl(['delete', 'pvc', '--all', '--namespace=default', '--timeout=120s']);
    await cluster.kubectl(['delete', 'storageclass', 'another']);
  }
});

test('docs/pet.md: a pet in a store that is away can be abandoned', async () => {
  const page = await DocumentedSteps.of('pet.md');
  await run(page.commands('kubectl apply').join('\n'));
  await run(page.commands('kubectl wait').join('\n'));
  const left = line(await getPet('pet-sample1', 'default'));
  const scale = (replicas: number) =>
    cluster.kubectl(['scale', 'statefulset/echoperator-petstore', `--replicas=${replicas}`, '--namespace', release]);
  await scale(0);
  try {
    await cluster.kubectl(['wait', '--for=delete', `pod/${storePod}`, '--namespace', release, '--timeout=90s']);
    await cluster.kubectl(['delete', 'pet/pet-sample1', '--wait=false']);
    const { scripts } = await DocumentedSteps.of('pet.md', 'Deletion');
    await run(scripts.join('\n').replace('NAME', 'pet-sample1'));
    await cluster.kubectl(['wait', '--for=delete', 'pet/pet-sample1', '--timeout=60s']);
  } finally {
    await scale(1);
    const rollout = ['rollout', 'status', 'statefulset/echoperator-petstore', '--namespace', release];
    await cluster.kubectl([...rollout, '--timeout=90s']);
  }
  expect(await pets('--name', 'Thor')).toEqual([left]);
  const id = left.split(' ')[0] ?? '';
  await cluster.kubectl([
    'exec',
    storePod,
    '--namespace',
    release,
    '--',
    '/usr/local/bin/node',
    '/app/main.js',
    'delete',
    id,
  ]);
});

test('docs/postgres-writer.md: the trial database takes the SQL', async () => {
  const { sql } = await DocumentedSteps.of('postgres-writer.md');
  const { scripts } = await DocumentedSteps.of('postgres-writer.md', 'Set it up');
  const [, trial = ''] = scripts;
  // The database of this suite has the page's namespace. A terminal would not pass on the SQL.
  const here = trial.replaceAll(/(namespace) database/g, '$1 trial').replace(' --tty', '');
  const [create, psql] = here.split(/\n(?=kubectl --namespace trial exec)/);
  try {
    await run(create ?? '');
    await cluster.kubectl(['wait', '--namespace=trial', '--for=condition=Ready', 'pod/postgres', '--timeout=60s']);
    const isUp = async () =>
      (await cluster.kubectl([
        'exec',
        '--namespace=trial',
        'postgres',
        '--',
        'psql',
        '--dbname=school',
        '--command=SELECT 1',
      ])) !== '';
    await eventually('the database is up', isUp);
    await writeFile(join(folder, 'sql'), sql);
    expect(await run(`${psql} <sql`)).toContain('GRANT');
    const { spec } = await cluster.get<V1Pod>('pod/postgres', '--namespace=trial');
    expect(spec?.containers[0]?.image).toBe('postgres:18');
  } finally {
    await cluster.kubectl(['delete', 'namespace', 'trial', '--ignore-not-found', '--timeout=90s']);
  }
});
