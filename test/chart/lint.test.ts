import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { chart, everyHelm, Helm } from './helm.ts';
import type { Manifest } from './rendering.ts';

const combinations: readonly (readonly [what: string, values: object])[] = [
  ['the defaults', {}],
  [
    'everything switched on',
    {
      networkPolicy: { enabled: true },
      monitoring: { serviceMonitor: 'always' },
      ha: { warmStandby: true },
      watchNamespaces: ['team-a', 'team-b'],
      controllers: { podSet: { enabled: true }, bookStore: { enabled: true }, pet: { enabled: true } },
      petstore: { enabled: true, tls: { certManager: { enabled: true, issuerRef: { name: 'internal' } } } },
      metrics: {
        serviceMonitor: { enabled: true },
        podMonitor: { enabled: true },
        prometheusRule: { enabled: true },
        dashboards: { enabled: true },
      },
      crds: { keep: false },
    },
  ],
  [
    'everything switched off',
    {
      monitoring: { enabled: false },
      crds: { enabled: false },
      serviceAccount: { create: false },
      ha: { enabled: false },
    },
  ],
];

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'chart-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe.each(everyHelm)('%s', (name) => {
  it.each(combinations)('passes helm lint with %s', async (_, values) => {
    const helm = await Helm.find(name);
    const said = await helm.lint(values);
    expect(said).toContain('1 chart(s) linted, 0 chart(s) failed');
    expect(said).not.toMatch(/\[(INFO|WARNING|ERROR)\]/);
  });

  it('renders the package and the folder identically', async () => {
    const helm = await Helm.find(name);
    const packaged = await Helm.find(name, await helm.package(folder));
    expect((await packaged.render()).manifests).toEqual((await helm.render()).manifests);
  });

  it('rejects a chart without CustomResourceDefinitions, whose Job could change any of them', async () => {
    const copy = join(folder, `without-crds-${name}`);
    await cp(chart, copy, { recursive: true });
    for (const file of await readdir(join(copy, 'files/crds'))) await rm(join(copy, 'files/crds', file));
    await expect((await Helm.find(name, copy)).render()).rejects.toThrow('make generate');
  });
});

it.each(combinations)('Helm 3 and Helm 4 render the same manifests with %s', async (_, values) => {
  const [three, four] = await Promise.all(
    everyHelm.map(async (name) => {
      const { manifests } = await (await Helm.find(name)).render({ values });
      const key = ({ kind, metadata }: Manifest) => `${kind} ${metadata?.namespace ?? ''}/${metadata?.name}`;
      return new Map(manifests.map((manifest) => [key(manifest), manifest]));
    }),
  );
  expect(four).toEqual(three);
});
