import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { V1CustomResourceDefinition } from '@kubernetes/client-node';
import { parse, stringify } from 'yaml';
import { originalEchoCrd } from '../integration/environment/original-crds.ts';
import { E2eCluster, echo } from './environment/cluster.ts';
import { Release } from './environment/release.ts';

const root = join(import.meta.dirname, '../..');
const crdName = 'echos.mmontes.io';

let cluster: E2eCluster;
let release: Release | undefined;
let namespace: string;

beforeEach(async () => {
  cluster = await E2eCluster.connect();
  await cluster.kubectl(['delete', 'crd', crdName, '--ignore-not-found', '--wait']);
  namespace = await cluster.namespace();
});

afterEach(async () => {
  await cluster.deleteNamespace(namespace);
  await release?.uninstall();
  release = undefined;
});

interface Identified {
  readonly metadata: { readonly uid: string; readonly name: string };
}

const uids = async (): Promise<readonly string[]> =>
  (await cluster.get<{ items: Identified[] }>('echos', '--namespace', namespace)).items.map(
    ({ metadata }) => metadata.uid,
  );

const printed = (name: string) =>
  cluster.kubectl(['wait', '--for=condition=Ready', `echo/${name}`, '--namespace', namespace, '--timeout=90s']);

const served = () => cluster.kubectl(['wait', '--for=condition=Established', `crd/${crdName}`, '--timeout=30s']);

test('installed from scratch with its defaults: `helm test` passes, uninstalling leaves the Echos', async () => {
  release = await Release.install(cluster);
  expect(await release.test()).toMatch(/Phase: +Succeeded/);
  await cluster.apply(echo('stays', namespace, { message: 'still here' }));
  await printed('stays');
  const before = await uids();
  await release.uninstall();
  release = undefined;
  expect(await uids()).toEqual(before);
});

test('installed over the original CRDs and live Echos, with values and an Echo of the original: nothing is lost', async () => {
  await cluster.apply({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', ...originalEchoCrd });
  await served();
  await cluster.apply(echo('hello-world', namespace, { message: 'Hola, 世界!' }));
  const before = await uids();
  // The file's image comes from a registry that is not here.
  const image = 'image.repository=ghcr.io/echoperator/echoperator,image.pullPolicy=IfNotPresent';
  release = await Release.install(cluster, ['--values', join(root, 'test/chart/original-values.yaml'), '--set', image]);
  await printed('hello-world');
  expect(await cluster.logOf('hello-world', namespace)).toBe('Hola, 世界!\n');
  expect(await uids()).toEqual(before);
});

test('upgraded from an older release and rolled back: the CRDs follow, nothing is lost, the status works', async () => {
  const older = await olderChart();
  try {
    // The older release's hook would bring the CRDs of the image, which is the newer one here.
    release = await Release.install(cluster, ['--set', 'crds.upgradeJob.enabled=false'], older);
  } finally {
    await rm(older, { recursive: true });
  }
  await cluster.apply(echo('first', namespace, { message: 'made under the older release' }));
  await printed('first');
  await expect(cluster.apply(echo('brief', namespace, { message: 'x', ttlSecondsAfterFinished: 600 }))).rejects.toThrow(
    'ttlSecondsAfterFinished',
  );

  await release.upgrade();
  await cluster.apply(echo('brief', namespace, { message: 'with a time to live', ttlSecondsAfterFinished: 600 }));
  await printed('brief');
  const before = await uids();
  expect(before).toHaveLength(2);

  await release.rollback(1);
  expect(await uids()).toEqual(before);
  await cluster.apply(echo('after', namespace, { message: 'made after the rollback' }));
  await printed('after');
  expect(await cluster.logOf('after', namespace)).toBe('made after the rollback\n');
});

test('uninstalling is refused while there are Pets, lists them, and leaves all as it is; it works when they are deleted', async () => {
  const installed = await Release.install(cluster, [
    ...['--set', 'controllers.pet.enabled=true,petstore.enabled=true'],
    ...['--set', 'ha.enabled=false'],
  ]);
  release = installed;
  await cluster.apply({
    apiVersion: 'petstore.example.com/v1alpha1',
    kind: 'Pet',
    metadata: { name: 'thor', namespace },
    spec: { name: 'Thor', type: 'dog', birthday: '2021-04-01T00:00:00Z' },
  });
  await cluster.kubectl(['wait', '--for=condition=Ready', 'pet/thor', '--namespace', namespace, '--timeout=90s']);

  await expect(installed.uninstall()).rejects.toThrow('echoperator-uninstall failed');
  const list = await cluster.kubectl(['logs', 'job/echoperator-uninstall', '--namespace', installed.namespace]);
  expect(list).toContain(`  pets.petstore.example.com ${namespace}/thor\n`);
  await cluster.kubectl(['delete', 'pet/thor', '--namespace', namespace, '--timeout=60s']);

  // Its namespace goes with it, which holds nobody's finalizers any more.
  await installed.uninstall();
  release = undefined;
});

/** The chart as a release before this one: a lower version, and a CRD without the field that this one added. */
async function olderChart(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'echoperator-older-chart-'));
  await cp(join(root, 'charts/echoperator'), folder, { recursive: true });
  await edit<{ version: string }>(join(folder, 'Chart.yaml'), (chart) => {
    chart.version = '0.0.1';
  });
  await edit<V1CustomResourceDefinition>(join(folder, 'crds/mmontes.io_echos.yaml'), (crd) => {
    delete crd.spec.versions[0]?.schema?.openAPIV3Schema?.properties?.spec?.properties?.ttlSecondsAfterFinished;
  });
  return folder;
}

async function edit<C>(path: string, change: (content: C) => void): Promise<void> {
  const content: C = parse(await readFile(path, 'utf8'));
  change(content);
  await writeFile(path, stringify(content));
}
