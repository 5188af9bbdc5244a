import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { V1CustomResourceDefinition } from '@kubernetes/client-node';
import { parse, stringify } from 'yaml';

const chart = join(import.meta.dirname, '../../../charts/echoperator');

/**
 * The chart as a release before this one: a lower version, and a CRD without the field `ttlSecondsAfterFinished` of
 * Echos.
 */
export interface OlderChart extends AsyncDisposable {
  readonly folder: string;
  /** The folder of its CRDs. */
  readonly crds: string;
  /**
   * Flags for Helm: the older release's hook would apply the CRDs of the image, which is the newer one here. Apply
   * {@link crds} instead.
   */
  readonly flags: readonly string[];
}

/** Writes the older chart into a temporary folder, which its disposal removes. */
export async function olderChart(): Promise<OlderChart> {
  const folder = await mkdtemp(join(tmpdir(), 'echoperator-older-chart-'));
  await cp(chart, folder, { recursive: true });
  const echoCrd = join(folder, 'files/crds/echos.mmontes.io.yaml');
  await edit<{ version: string }>(join(folder, 'Chart.yaml'), (content) => {
    content.version = '0.0.1';
  });
  await edit<V1CustomResourceDefinition>(echoCrd, (crd) => {
    delete crd.spec.versions[0]?.schema?.openAPIV3Schema?.properties?.spec?.properties?.ttlSecondsAfterFinished;
  });
  return {
    folder,
    crds: join(folder, 'files/crds'),
    flags: ['--set', 'crds.upgradeJob.enabled=false'],
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}

async function edit<C>(path: string, change: (content: C) => void): Promise<void> {
  const content: C = parse(await readFile(path, 'utf8'));
  change(content);
  await writeFile(path, stringify(content));
}
