import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { V1CustomResourceDefinition } from '@kubernetes/client-node';
import { parse, stringify } from 'yaml';
import { echo } from './environment/cluster.ts';
import { cluster, namespace, printed, setUp, tearDown, uids } from './environment/helm.ts';
import { Release } from './environment/release.ts';

const root = join(import.meta.dirname, '../..');

let release: Release | undefined;

beforeEach(setUp);

afterEach(async () => {
  await tearDown(release);
  release = undefined;
});

test('an upgrade from an older release updates the CRDs and passes `helm test`; a rollback and an uninstallation lose nothing', async () => {
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
  expect(await release.test()).toMatch(/Phase: +Succeeded/);

  await release.rollback(1);
  expect(await uids()).toEqual(before);
  await cluster.apply(echo('after', namespace, { message: 'made after the rollback' }));
  await printed('after');
  expect(await cluster.logOf('after', namespace)).toBe('made after the rollback\n');

  const atLast = await uids();
  await release.uninstall();
  release = undefined;
  expect(await uids()).toEqual(atLast);
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
