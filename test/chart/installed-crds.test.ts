import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { stringify } from 'yaml';
import { definitionOf } from '../../src/crds.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { kinds } from '../../src/operator.ts';
import { isNotFound } from '../../src/runtime/client/index.ts';
import { customResourceDefinition } from '../../src/runtime/index.ts';
import { CustomResourceDefinition } from '../../src/runtime/kinds/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import { bundlePrograms } from '../../testkit/shipped-program.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { originalEchoCrd } from '../integration/environment/original-crds.ts';
import { HookPods } from './environment/hook-pods.ts';
import { cluster, first, helmOf, second, setUp, tearDown, uninstallAll, upgrade } from './environment/releases.ts';
import { chart, everyHelm, type HelmName, helmNames } from './helm.ts';

let folder: string;
let hookPods: HookPods;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'installed-crds-'));
  await setUp([]);
  hookPods = new HookPods(cluster, await bundlePrograms(folder), folder);
});
afterEach(async () => {
  await uninstallAll();
  await removeCrds();
});
afterAll(async () => {
  await tearDown();
  await rm(folder, { recursive: true, force: true });
});

async function removeCrds(): Promise<void> {
  for (const name of crdNames) {
    const get = () => cluster.client.get(CustomResourceDefinition, { name });
    if (await cluster.isGone(get)) continue;
    await cluster.client.delete(CustomResourceDefinition, { name });
    // With it the API server would first look for objects of the kind, of which there are none, and on a busy machine take minutes.
    await withoutFinalizer(name);
    await eventually(`${name} is gone`, () => cluster.isGone(get));
  }
}

async function withoutFinalizer(name: string): Promise<void> {
  const body = { metadata: { finalizers: null } };
  try {
    await cluster.client.patch(CustomResourceDefinition, { name }, { type: 'merge', body });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

const crdNames = kinds.map((kind) => customResourceDefinition(kind).metadata.name);

const echoCrd = () => cluster.client.get(CustomResourceDefinition, { name: 'echos.mmontes.io' });

const originalManifest = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  ...originalEchoCrd,
};

/** The definition of Echos of another version of the operator. Its field `colour` shows that it is served. */
function definitionOfVersion(version: string): object {
  const definition = structuredClone(definitionOf(Echo, version)) as CustomResourceDefinition;
  const { properties } = definition.spec.versions[0]!.schema!.openAPIV3Schema!.properties!.spec as {
    properties: Record<string, object>;
  };
  properties.colour = { type: 'string' };
  return { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', ...definition };
}

/** A chart that has CRDs in the folder `crds`, as the original's. It renders only a ConfigMap. @returns its folder */
async function chartWithCrds(crd: object): Promise<string> {
  const other = await mkdtemp(join(folder, 'chart-'));
  await mkdir(join(other, 'templates'));
  await mkdir(join(other, 'crds'));
  await cp(join(chart, 'Chart.yaml'), join(other, 'Chart.yaml'));
  await writeFile(join(other, 'crds/echos.yaml'), stringify(crd));
  const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'other' } };
  await writeFile(join(other, 'templates/configmap.yaml'), stringify(configMap));
  return other;
}

async function kubectlApply(manifest: object, ...flags: readonly string[]): Promise<void> {
  const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
  const env = { KUBECONFIG: cluster.kubeconfig };
  await execa(kubectl, ['apply', ...flags, '--filename=-'], { input: JSON.stringify(manifest), env });
}

/** Installs a release whose chart has the definition in `crds`, in the second namespace. {@link uninstallAll} removes it. */
const installWithCrds = async (name: HelmName, crd: object): Promise<void> =>
  upgrade(await helmOf(name, await chartWithCrds(crd)), { release: 'other', namespace: second });

/** What has prepared the cluster, by its name. */
const preparations: Readonly<Record<string, () => Promise<void>>> = {
  'an empty cluster': async () => {},
  "the original's definition by kubectl": () => kubectlApply(originalManifest),
  "the original's definition by kubectl, server-side": () => kubectlApply(originalManifest, '--server-side'),
  ...Object.fromEntries(
    everyHelm.flatMap((name) => [
      [
        `the original's definition by ${name}, whose release is uninstalled`,
        async () => {
          await installWithCrds(name, originalManifest);
          await (await helmOf(name)).uninstall({ release: 'other', namespace: second });
        },
      ],
      [`a release of an older version by ${name}`, () => installWithCrds(name, definitionOfVersion('0.0.1'))],
    ]),
  ),
};

const install = async (name: HelmName): Promise<void> => {
  const release = { namespace: first, values: { watchNamespaces: [first] }, hooks: true };
  await hookPods.during(first, upgrade(await helmOf(name), release));
};

const fieldsOf = ({ spec }: CustomResourceDefinition): readonly string[] =>
  Object.keys(spec.versions[0]?.schema?.openAPIV3Schema?.properties?.spec?.properties ?? {});

describe.each(helmNames)('an installation by %s', (name) => {
  test.each(Object.keys(preparations))('over %s has the definitions of this version', async (preparation) => {
    await preparations[preparation]?.();
    await install(name);
    for (const crd of crdNames) await cluster.client.get(CustomResourceDefinition, { name: crd });
    expect(fieldsOf(await echoCrd())).toContain('ttlSecondsAfterFinished');
    expect(fieldsOf(await echoCrd())).not.toContain('colour');
    const before = (await echoCrd()).metadata.uid;
    await (await helmOf(name)).uninstall({ namespace: first });
    expect((await echoCrd()).metadata.uid).toBe(before);
  });

  test("over the definitions of a newer version's release leaves them", async () => {
    await installWithCrds(name, definitionOfVersion('99.0.0'));
    await install(name);
    expect(fieldsOf(await echoCrd())).toContain('colour');
  });

  test('is upgraded together with the definitions, which another version has applied meanwhile', async () => {
    await install(name);
    await kubectlApply(definitionOfVersion('0.0.1'), '--server-side', '--force-conflicts');
    await eventually('the older definition is there', async () => fieldsOf(await echoCrd()).includes('colour'));
    await install(name);
    expect(fieldsOf(await echoCrd())).not.toContain('colour');
  });
});
