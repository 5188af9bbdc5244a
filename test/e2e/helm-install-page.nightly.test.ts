import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { E2eCluster, echo } from './environment/cluster.ts';
import { DocumentedSteps, documentedNamespace } from './environment/documented.ts';

const root = join(import.meta.dirname, '../..');
const page = 'install.md';

/** A test waits twice for the replicas of a release. */
const testMs = 300_000;

let cluster: E2eCluster;
/** Like the repository, in which the page's commands run. */
let folder: string;
let watched: string;

beforeEach(async () => {
  cluster = await E2eCluster.connect();
  folder = await mkdtemp(join(tmpdir(), 'install-page-'));
  // Copies, because kubectl does not read a folder through a link.
  for (const name of ['charts', 'crds', 'examples'])
    await cp(join(root, name), join(folder, name), { recursive: true });
  watched = await cluster.namespace();
});

afterEach(async () => {
  await cluster.deleteNamespace(watched);
  await cluster.kubectl(['delete', 'namespace', documentedNamespace, '--ignore-not-found', '--timeout=90s']);
  await rm(folder, { recursive: true, force: true });
});

async function prints(message: string): Promise<void> {
  await cluster.apply(echo(message, watched, { message }));
  await cluster.kubectl(['wait', '--for=condition=Ready', `echo/${message}`, '--namespace', watched, '--timeout=90s']);
  expect(await cluster.logOf(message, watched)).toBe(`${message}\n`);
}

test(
  'the commands for kubectl only install a working operator, and delete it',
  async () => {
    const { allCommands } = await DocumentedSteps.of(page, 'With kubectl only');
    expect(allCommands).toHaveLength(5);
    for (const command of allCommands) await cluster.shell(command, folder);
    await prints('by-kubectl');
    await cluster.kubectl(['delete', '--filename', join(folder, 'echoperator.yaml'), '--timeout=90s']);
  },
  testMs,
);

test(
  'the command for a cluster of this repository installs a working operator',
  async () => {
    const [command = ''] = (await DocumentedSteps.of(page)).commands('helm install echoperator charts/echoperator');
    await cluster.shell(command, folder);
    await prints('by-helm');
    await cluster.shell(`helm uninstall echoperator --namespace ${documentedNamespace} --wait`, folder);
  },
  testMs,
);
