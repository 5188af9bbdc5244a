import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { V1ContainerStatus, V1Pod } from '@kubernetes/client-node';
import { eventually } from '../../testkit/eventually.ts';
import { type ImageRegistry, registryLogin, startImageRegistry } from '../../testkit/image-registry.ts';
import { baseImageArchives } from '../../tools/cluster/images.ts';
import { Cluster, removeClusterOnExit, type Watchdog } from '../../tools/cluster/index.ts';
import { buildahIn } from '../../tools/release/image/buildah.ts';
import { buildImage } from '../../tools/release/index.ts';
import { E2eCluster, echo } from './environment/cluster.ts';
import { DocumentedSteps, documentedNamespace } from './environment/documented.ts';

const charts = join(import.meta.dirname, '../../charts');

/** The time to build the registry and the images, if no earlier run has. */
const buildMs = 600_000;

/** A cluster of its own, because the suite's nodes have the operator's image. */
const clusterName = 't-registry';
let nodes: Cluster;
let watchdog: Watchdog;
let cluster: E2eCluster;
let registry: ImageRegistry;
/** Like the repository, in which the page's commands run. */
let folder: string;
let operatorImage: PushedImage;
let busyboxImage: PushedImage;

/** An image in the registry. */
type PushedImage = { readonly name: string; readonly nameWithDigest: string };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'image-registry-'));
  await symlink(charts, join(folder, 'charts'));
  // A killed run may have left it.
  await Cluster.down(clusterName);
  watchdog = await removeClusterOnExit(clusterName);
  nodes = await Cluster.up({ name: clusterName, nodes: 1 });
  cluster = await E2eCluster.connect(nodes);
  registry = await startImageRegistry({ folder, host: nodes.hostAddress, requiresLogin: true });
  const { address } = registry;
  await nodes.allowRegistryWithoutTls(address);

  const operator = await buildImage();
  operatorImage = await push(operator.archive, operator.name, operator.name.replace(/^[^/]+/, address));
  const [busybox = ''] = await baseImageArchives(undefined);
  busyboxImage = await push(busybox, 'docker.io/library/busybox:1.36', `${address}/busybox:1.36`);
}, buildMs);

afterAll(async () => {
  await registry?.[Symbol.asyncDispose]();
  await nodes?.down();
  await watchdog?.release();
  await rm(folder, { recursive: true, force: true });
});

/** Pushes an image from its docker-archive, with compressed layers: its digest differs from that of a loaded image. */
async function push(archive: string, from: string, name: string): Promise<PushedImage> {
  const buildah = buildahIn(join(folder, 'buildah'), undefined);
  const digestFile = join(folder, 'digest');
  const login = `${registryLogin.user}:${registryLogin.password}`;
  await buildah('pull', '--quiet', `docker-archive:${archive}`);
  const options = ['--quiet', '--tls-verify=false', '--creds', login, '--digestfile', digestFile];
  await buildah('push', ...options, from, `docker://${name}`);
  return { name, nameWithDigest: `${name.replace(/:[^:/]+$/, '')}@${await readFile(digestFile, 'utf8')}` };
}

async function containersIn(namespace: string): Promise<readonly V1ContainerStatus[]> {
  const { items } = await cluster.get<{ items: V1Pod[] }>('pods', '--namespace', namespace);
  return items.flatMap(({ status }) => status?.containerStatuses ?? []);
}

/** Returns the images of a namespace's containers, each once. */
const imageIds = async (namespace: string): Promise<readonly string[]> => [
  ...new Set((await containersIn(namespace)).map(({ imageID }) => imageID)),
];

/** Waits until the registry refuses a pull without the Secret. */
const pullIsRefused = (namespace: string, { name }: PushedImage) =>
  eventually(`a refused pull of ${name}`, async () =>
    (await containersIn(namespace)).some(
      ({ image, state }) => image === name && state?.waiting?.message?.includes('no basic auth credentials'),
    ),
  );

test('the operator, its hooks and its pods use the images of the registry that the docs set, with the pull Secret', async () => {
  const here = (command: string): string =>
    command
      .replaceAll('mirror.example.com', registry.address)
      .replace('USER', registryLogin.user)
      .replace('PASSWORD', registryLogin.password);
  const { yaml, allCommands } = await DocumentedSteps.of('install.md', 'From a mirror');
  await writeFile(join(folder, 'mirror.yaml'), here(yaml));
  expect(allCommands).toHaveLength(3);
  const [createNamespace = '', createSecret = '', install = ''] = allCommands.map(here);

  await cluster.shell(createNamespace, folder);
  const abandoned = new AbortController();
  const installation = cluster.shell(install, folder, abandoned.signal);
  const early = installation.then(() => {
    throw new Error('the installation did not need the Secret');
  });
  try {
    // The first hook's pull, before the Deployment exists.
    await Promise.race([early, pullIsRefused(documentedNamespace, operatorImage)]);
    await cluster.shell(createSecret, folder);
    await installation;
  } finally {
    // After a failure Helm would wait for minutes.
    abandoned.abort();
    await installation.catch(() => {});
  }
  const helm = (...args: readonly string[]) => cluster.helm([...args, '--namespace', documentedNamespace]);
  expect(await helm('test', 'echoperator', '--timeout=120s')).toMatch(/Phase: +Succeeded/);
  expect(await imageIds(documentedNamespace)).toEqual([operatorImage.nameWithDigest]);

  const watched = await cluster.namespace();
  await cluster.apply(echo('mirrored', watched, { message: 'mirrored' }));
  await pullIsRefused(watched, busyboxImage);
  await cluster.shell(createSecret.replace(`--namespace ${documentedNamespace}`, `--namespace ${watched}`), folder);
  await cluster.kubectl(['wait', '--for=condition=Ready', 'echo/mirrored', '--namespace', watched, '--timeout=120s']);
  expect(await cluster.logOf('mirrored', watched)).toBe('mirrored\n');
  expect(await imageIds(watched)).toEqual([busyboxImage.nameWithDigest]);

  await cluster.kubectl(['delete', 'echo/mirrored', '--namespace', watched, '--timeout=90s']);
  // Its hook is a pod, and the only image of the operator on the node is the registry's.
  await helm('uninstall', 'echoperator', '--wait', '--timeout=120s');
});
