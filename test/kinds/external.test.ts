import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '../../testkit/eventually.ts';
import { DocumentedSteps } from '../e2e/environment/documented.ts';
import { cluster, connect } from './environment/cluster.ts';
import { getPet, line, lines, pets, rows } from './environment/external.ts';

const root = join(import.meta.dirname, '../..');

let ofRows: DocumentedSteps;
let ofPets: DocumentedSteps;

beforeAll(async () => {
  await connect();
  ofRows = await DocumentedSteps.of('postgres-writer.md');
  ofPets = await DocumentedSteps.of('pet.md');
});

afterAll(async () => {
  const examples = ['examples/postgres-writer.yaml', 'examples/pet.yaml'].map(
    (file) => `--filename=${join(root, file)}`,
  );
  await cluster.kubectl(['delete', '--ignore-not-found', ...examples, '--timeout=60s']);
});

/** What the one command of a page that begins so prints. */
async function follow(steps: DocumentedSteps, beginning: string): Promise<string> {
  const [command = '', ...others] = steps.commands(beginning);
  expect(others).toEqual([]);
  return cluster.shell(command, root);
}

describe('the examples', () => {
  test('of PostgresWriters: psql shows the row, its change and its deletion', async () => {
    await follow(ofRows, 'kubectl apply');
    await follow(ofRows, 'kubectl wait');
    expect(await rows('default')).toEqual(['default/sample-student|Alice|23|Spain']);
    await cluster.kubectl(['patch', 'postgreswriter/sample-student', '--type=merge', '--patch={"spec":{"age":24}}']);
    await eventually('the row is older', async () => (await rows('default'))[0]?.includes('|24|'));
    await cluster.kubectl(['delete', 'postgreswriter/sample-student', '--timeout=60s']);
    expect(await rows('default')).toEqual([]);
  });

  test("of Pets: the store's command line shows the pets, their changes and their deletion", async () => {
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
