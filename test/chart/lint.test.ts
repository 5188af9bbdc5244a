import { describe, expect, it } from '@jest/globals';
import { Helm, helmNames } from './helm.ts';

const combinations: readonly (readonly [what: string, values: object])[] = [
  ['the defaults', {}],
  ['everything switched on', { networkPolicy: { enabled: true }, monitoring: { serviceMonitor: 'always' } }],
  [
    'everything switched off',
    { monitoring: { enabled: false }, crds: { upgradeJob: { enabled: false } }, serviceAccount: { create: false } },
  ],
];

describe.each(helmNames)('%s', (name) => {
  it.each(combinations)('finds no fault with %s', async (_, values) => {
    const helm = await Helm.find(name);
    const said = await helm.lint(values);
    expect(said).toContain('1 chart(s) linted, 0 chart(s) failed');
    expect(said).not.toMatch(/\[(INFO|WARNING|ERROR)\]/);
  });
});

it.each(combinations)('both Helms render the same of %s', async (_, values) => {
  const [three, four] = await Promise.all(
    helmNames.map(async (name) => {
      const { manifests } = await (await Helm.find(name)).render({ values });
      return new Map(manifests.map((manifest) => [`${manifest.kind}/${manifest.metadata?.name}`, manifest]));
    }),
  );
  expect(four).toEqual(three);
});
