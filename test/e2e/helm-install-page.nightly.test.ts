import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { V1ConfigMap, V1Pod } from '@kubernetes/client-node';
import { freePorts } from '../../testkit/free-ports.ts';
import { codeBlocks } from '../../testkit/markdown.ts';
import { Cluster } from '../../tools/cluster/index.ts';
import { buildahIn } from '../../tools/release/image/buildah.ts';
import { buildImage } from '../../tools/release/index.ts';
import { E2eCluster, echo } from './environment/cluster.ts';
import { DocumentedSteps, documentedNamespace } from './environment/documented.ts';

const root = join(import.meta.dirname, '../..');
const page = 'install.md';
const operations = 'operations.md';

/** A test waits several times for the replicas of a release. */
const testMs = 400_000;

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
  // After a failure its cluster-wide objects would hinder the next release.
  await cluster.helm(['uninstall', 'echoperator', '--namespace', documentedNamespace, '--ignore-not-found', '--wait']);
  await cluster.deleteNamespace(watched);
  await cluster.kubectl(['delete', 'namespace', documentedNamespace, '--ignore-not-found', '--timeout=90s']);
  await rm(folder, { recursive: true, force: true });
});

async function prints(message: string, namespace = watched): Promise<void> {
  await cluster.apply(echo(message, namespace, { message }));
  await cluster.kubectl([
    'wait',
    '--for=condition=Ready',
    `echo/${message}`,
    '--namespace',
    namespace,
    '--timeout=90s',
  ]);
  expect(await cluster.logOf(message, namespace)).toBe(`${message}\n`);
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
  'Install: the command for a cluster of this repository installs a working operator',
  async () => {
    const [command = ''] = (await DocumentedSteps.of(page)).commands('helm install echoperator charts/echoperator');
    await cluster.shell(command, folder);
    await prints('by-helm');
    await cluster.shell(`helm uninstall echoperator --namespace ${documentedNamespace} --wait`, folder);
  },
  testMs,
);

test(
  'the commands without cluster-wide rights install an operator for two namespaces',
  async () => {
    const { allCommands } = await DocumentedSteps.of(page, 'Without cluster-wide rights');
    const namespaces = ['team-a', 'team-b'];
    try {
      for (const name of namespaces) await cluster.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
      expect(allCommands).toHaveLength(2);
      for (const command of allCommands) await cluster.shell(command, folder);
      await cluster.kubectl(['rollout', 'status', 'deployment/echoperator', '--namespace=team-a', '--timeout=120s']);
      await prints('for-team-b', 'team-b');
      await cluster.kubectl(['delete', 'echos', '--all', '--namespace=team-b', '--timeout=60s']);
      await cluster.shell('helm uninstall echoperator --namespace team-a --wait', folder);
    } finally {
      await cluster.kubectl(['delete', 'namespace', ...namespaces, '--ignore-not-found', '--timeout=90s']);
    }
  },
  testMs,
);

test(
  "the README's command for kind installs an image that was only loaded",
  async () => {
    const readme = await readFile(join(root, 'README.md'), 'utf8');
    const { text = '' } = codeBlocks(readme).find((block) => block.text.startsWith('kind create cluster')) ?? {};
    const [, image = ''] = /^docker build --tag (\S+) \.$/m.exec(text) ?? [];
    expect(text).toMatch(new RegExp(`^kind load docker-image ${image}$`, 'm'));
    const [install = ''] = /^helm install (?:.*\\\n)*.*$/m.exec(text) ?? [];

    // As Docker names it.
    const name = `docker.io/library/${image}`;
    const built = await buildImage();
    const buildah = buildahIn(join(folder, 'buildah'), undefined);
    const archive = join(folder, 'image.tar');
    await buildah('pull', '--quiet', `docker-archive:${built.archive}`);
    await buildah('push', '--quiet', built.name, `docker-archive:${archive}:${name}`);
    await (await Cluster.find('e2e')).loadImage(archive);

    await cluster.shell(install, folder);
    const { items } = await cluster.get<{ items: V1Pod[] }>('pods', '--namespace', documentedNamespace);
    expect(new Set(items.map(({ spec }) => spec?.containers[0]?.image))).toEqual(new Set([image]));
    await prints('by-readme');
    await cluster.shell(`helm uninstall echoperator --namespace ${documentedNamespace} --wait`, folder);
  },
  testMs,
);

test(
  'the commands of Operations upgrade a release, roll it back and uninstall it; then an operator runs outside of the cluster',
  async () => {
    const [install = ''] = (await DocumentedSteps.of(page)).commands('helm install echoperator charts/echoperator');
    await cluster.shell(install, folder);
    const [upgrade = '', applyCrds = '', keepOn = '', ...others] = (await DocumentedSteps.of(operations, 'Upgrades'))
      .scripts;
    expect(others).toEqual([]);
    expect(await cluster.shell(upgrade, folder)).toMatch(/Phase: +Succeeded/);
    await cluster.shell(keepOn, folder);
    const settings = async () =>
      (await cluster.get<V1ConfigMap>('configmap/echoperator', '--namespace', documentedNamespace)).data;
    expect((await settings())?.CONTROLLERS).toContain('bookStore');
    const operationsPage = await readFile(join(root, 'docs', operations), 'utf8');
    const [, rollback = ''] = /^\*\*Rollback\.\*\* `(helm rollback [^`]+)`/m.exec(operationsPage) ?? [];
    await cluster.shell(rollback, folder);
    expect((await settings())?.CONTROLLERS).not.toContain('bookStore');
    await cluster.shell(applyCrds, folder);
    await prints('upgraded');
    const [withValues = ''] = (await DocumentedSteps.of(operations, 'From the original operators')).scripts;
    await writeFile(join(folder, 'values.yaml'), 'numWorkers: 9\n');
    await cluster.shell(withValues.replace('RELEASE', 'echoperator').replace('NAMESPACE', documentedNamespace), folder);
    expect(await settings()).toMatchObject({ NUM_WORKERS: '9' });

    const [uninstall = '', deleteAll = '', ...rest] = (await DocumentedSteps.of(operations, 'Uninstall')).scripts;
    expect(rest).toEqual([]);
    await cluster.shell(uninstall, folder);
    expect(await cluster.kubectl(['get', 'echos', '--namespace', watched, '--output=name'])).toBe(
      'echo.mmontes.io/upgraded',
    );
    await cluster.shell(deleteAll, folder);
    expect(await cluster.kubectl(['get', 'crds', '--output=name'])).not.toContain('mmontes.io');

    const [outside = ''] = (await DocumentedSteps.of(operations, 'Outside of a cluster')).scripts;
    // The page's last command does not end by itself.
    const [last = ''] = /^KUBECONFIG=.*$/m.exec(outside) ?? [];
    await cluster.shell(outside.replace(last, ''), folder);
    const stop = new AbortController();
    const [port] = await freePorts();
    // Not the reader's cluster, nor ports that this machine may use.
    const command = last.replace('KUBECONFIG=~/.kube/config', `METRICS_ENABLED=false HEALTH_PORT=${port}`);
    expect(command).not.toContain('.kube');
    const operator = cluster.shell(`exec env ${command}`, root, stop.signal).catch((error: unknown) => error);
    try {
      await prints('outside');
    } finally {
      stop.abort();
      await operator;
    }
  },
  testMs,
);
