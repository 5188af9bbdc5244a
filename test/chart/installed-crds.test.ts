import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { customResourceDefinition } from '@echoperator/runtime';
import { isNotFound } from '@echoperator/runtime/client';
import { CustomResourceDefinition } from '@echoperator/runtime/kinds';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { stringify } from 'yaml';
import { definitionOf } from '../../src/commands/crds.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { kinds } from '../../src/operator.ts';
import { eventually } from '../../testkit/eventually.ts';
import { bundlePrograms } from '../../testkit/shipped-program.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { originalCrds } from '../integration/environment/original-crds.ts';
import { HookPods } from './environment/hook-pods.ts';
import {
  cluster,
  first,
  helmOf,
  refusal,
  second,
  setUp,
  tearDown,
  uninstallAll,
  upgrade,
} from './environment/releases.ts';
import { chart, everyHelm, type HelmName, helmNames } from './helm.ts';

/** The manifests of the tutorials, which the examples are. Their namespace is `default`. */
const samples = join(import.meta.dirname, '../../examples');

/** A values file as it was written for the original chart. No other tutorial has a chart. */
const originalValues = join(import.meta.dirname, '../../examples/values/original.yaml');

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

/** Also removes the objects, which would otherwise be there again as soon as the kind is. */
async function removeCrds(): Promise<void> {
  for (const kind of kinds) {
    const { name } = customResourceDefinition(kind).metadata;
    const get = () => cluster.client.get(CustomResourceDefinition, { name });
    if (await cluster.isGone(get)) continue;
    await cluster.client.deleteCollection(kind, { namespace: 'default' });
    await cluster.client.delete(CustomResourceDefinition, { name });
    // With it the API server would first look for objects of the kind, of which there are none, and on a busy machine
    // take minutes.
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

/** The definitions that the API server has, in the order of the kinds. */
const installedCrds = (): Promise<readonly CustomResourceDefinition[]> =>
  Promise.all(
    kinds.map((kind) => cluster.client.get(CustomResourceDefinition, customResourceDefinition(kind).metadata)),
  );

const type = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition' };

const originals: readonly object[] = originalCrds.map((definition) => ({ ...type, ...definition }));

/** The definitions of another version of the operator. Their field `colour` shows that they are served. */
function definitionsOfVersion(version: string): readonly object[] {
  return kinds.map((kind) => {
    const definition = structuredClone(definitionOf(kind, version)) as CustomResourceDefinition;
    const { properties } = definition.spec.versions[0]!.schema!.openAPIV3Schema!.properties!.spec as {
      properties: Record<string, object>;
    };
    properties.colour = { type: 'string' };
    return { ...type, ...definition };
  });
}

/** A chart that has CRDs in the folder `crds`, as the original's. It renders only a ConfigMap. @returns its folder */
async function chartWithCrds(crds: readonly object[]): Promise<string> {
  const other = await mkdtemp(join(folder, 'chart-'));
  await mkdir(join(other, 'templates'));
  await mkdir(join(other, 'crds'));
  await cp(join(chart, 'Chart.yaml'), join(other, 'Chart.yaml'));
  await writeFile(join(other, 'crds/crds.yaml'), crds.map((crd) => stringify(crd)).join('---\n'));
  const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'other' } };
  await writeFile(join(other, 'templates/configmap.yaml'), stringify(configMap));
  return other;
}

async function kubectl(args: readonly string[], items: readonly object[] = []): Promise<void> {
  const program = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
  const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
  await execa(program, args, { input, env: { KUBECONFIG: cluster.kubeconfig } });
}

/**
 * Installs a release whose chart has the definitions in `crds`, in the second namespace. {@link uninstallAll} removes
 * it.
 */
const installWithCrds = async (name: HelmName, crds: readonly object[]): Promise<void> =>
  upgrade(await helmOf(name, await chartWithCrds(crds)), { release: 'other', namespace: second });

/** What has prepared the cluster, by its name. */
const preparations: Readonly<Record<string, () => Promise<void>>> = {
  'an empty cluster': async () => {},
  "the originals' definitions by kubectl create": () => kubectl(['create', '--filename=-'], originals),
  "the originals' definitions by kubectl apply": () => kubectl(['apply', '--filename=-'], originals),
  "the originals' definitions by kubectl apply --server-side": () =>
    kubectl(['apply', '--server-side', '--filename=-'], originals),
  ...Object.fromEntries(
    everyHelm.flatMap((name) => [
      [
        `the originals' definitions by ${name}, whose release is uninstalled`,
        async () => {
          await installWithCrds(name, originals);
          await (await helmOf(name)).uninstall({ release: 'other', namespace: second });
        },
      ],
      [`a release of an older version by ${name}`, () => installWithCrds(name, definitionsOfVersion('0.0.1'))],
    ]),
  ),
};

/**
 * With `HELMS=every` (nightly) each installation is over each of them. The others differ from these only in who has
 * prepared the cluster.
 */
const ways = Object.keys(preparations).filter(
  (way) =>
    helmNames.length > 1 || !/^(.* by kubectl apply|.* by helm4, .*|a release of an older version by helm)$/.test(way),
);

/** With the values of the original chart. */
const install = async (name: HelmName): Promise<void> => {
  const flags = [`--values=${originalValues}`];
  const release = { namespace: first, values: { watchNamespaces: [first] }, flags, hooks: true };
  await hookPods.during(first, upgrade(await helmOf(name), release));
};

const fieldsOf = ({ spec }: Pick<CustomResourceDefinition, 'spec'>): readonly string[] =>
  Object.keys(spec.versions[0]?.schema?.openAPIV3Schema?.properties?.spec?.properties ?? {}).sort();

/** The fields of each kind in this version. */
const fields = kinds.map((kind) => fieldsOf(customResourceDefinition(kind) as CustomResourceDefinition));

const installedFields = async () => (await installedCrds()).map(fieldsOf);

/** Applies each manifest of the tutorials. The API server refuses fields that it does not know. */
async function applySamples(): Promise<void> {
  const files = (await readdir(samples)).filter((file) => file.endsWith('.yaml') && file !== 'pet-store.yaml');
  expect(files).toHaveLength(kinds.length);
  await kubectl(['apply', '--validate=strict', ...files.map((file) => `--filename=${join(samples, file)}`)]);
}

describe.each(helmNames)('an installation by %s', (name) => {
  test.each(ways)(
    "over %s has the definitions of this version, takes the original chart's values and the tutorials' manifests",
    async (preparation) => {
      await preparations[preparation]?.();
      await install(name);
      expect(await installedFields()).toEqual(fields);
      await applySamples();
      const uids = (crds: readonly CustomResourceDefinition[]) => crds.map(({ metadata }) => metadata.uid);
      const before = uids(await installedCrds());
      await (await helmOf(name)).uninstall({ namespace: first });
      expect(uids(await installedCrds())).toEqual(before);
    },
  );

  test("rejects the image of the original chart's values before it changes anything", async () => {
    await kubectl(['create', '--filename=-'], originals);
    const flags = [`--values=${originalValues}`, '--set=image.repository=mmontes11/echoperator,image.tag=v0.0.1'];
    const said = await refusal((await helmOf(name)).upgrade({ namespace: first, flags, hooks: true }));
    expect(said).toContain('image.repository is "mmontes11/echoperator"');
    const { metadata } = customResourceDefinition(Echo);
    expect(fieldsOf(await cluster.client.get(CustomResourceDefinition, metadata))).toEqual(['message']);
  });

  test("over the definitions of a newer version's release leaves them", async () => {
    await installWithCrds(name, definitionsOfVersion('99.0.0'));
    await install(name);
    for (const installed of await installedFields()) expect(installed).toContain('colour');
    await applySamples();
  });

  test('is upgraded together with the definitions, which another version has applied meanwhile', async () => {
    await install(name);
    await kubectl(['apply', '--server-side', '--force-conflicts', '--filename=-'], definitionsOfVersion('0.0.1'));
    await eventually('the older definition is there', async () => (await installedFields())[0]?.includes('colour'));
    await install(name);
    expect(await installedFields()).toEqual(fields);
  });
});
