import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';
import { Helm, helmNames } from './helm.ts';
import type { Rendering } from './rendering.ts';

/** Every object that the chart can create. */
const everything = {
  controllers: { pet: { enabled: true } },
  petstore: { enabled: true, tls: { certManager: { enabled: true, issuerRef: { name: 'ca' } } } },
  networkPolicy: { enabled: true },
  crds: { keep: false },
  metrics: {
    serviceMonitor: { enabled: true },
    prometheusRule: { enabled: true },
    dashboards: { enabled: true },
  },
};

/**
 * Names that Helm and Kubernetes accept, and that YAML would read as something else than a text, or that begin with a
 * digit.
 */
const oddNames = ['123', '1st', '1e3', 'true', 'null', '0x1f', `9${'n'.repeat(52)}`, 'my.2nd'];

/** https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ */
const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const labelFromLetter = /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/;
const subdomain = /^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$/;

/** Returns the names, namespaces and labels that are no texts. */
const notTexts = ({ manifests }: Rendering): readonly unknown[] =>
  manifests.flatMap(({ metadata }) =>
    [
      metadata?.name,
      metadata?.namespace ?? '',
      ...Object.values({ ...metadata?.labels, ...metadata?.annotations }),
    ].filter((value) => typeof value !== 'string'),
  );

describe.each(helmNames)('a release whose name and namespace are odd, by %s', (name) => {
  it.each(oddNames)('%s has names that every Kubernetes accepts', async (odd) => {
    const namespace = odd.replace('.', '-');
    const rendering = await (await Helm.find(name)).render({
      release: odd,
      namespace,
      values: { ...everything, watchNamespaces: [namespace] },
    });
    expect(notTexts(rendering)).toEqual([]);
    expect(JSON.stringify(rendering.manifests)).not.toMatch(/[:[,]123[,}\]]/);
    for (const { kind, metadata } of rendering.manifests) {
      const pattern = kind === 'Service' ? labelFromLetter : subdomain;
      expect([kind, metadata?.name]).toEqual([kind, expect.stringMatching(pattern)]);
    }
    for (const kind of ['Deployment', 'StatefulSet', 'Job'] as const)
      for (const { metadata } of rendering.all(kind)) expect(metadata?.name).toMatch(label);
  });

  it('has Services by which `helm test` finds the operator', async () => {
    const rendering = await (await Helm.find(name)).render({ release: '1st' });
    const services = rendering.all('Service').map(({ metadata }) => metadata?.name);
    const urls = rendering.one('Pod').spec?.containers[0]?.args?.slice(1) ?? [];
    expect(urls.map((url) => new URL(url).hostname).sort()).toEqual(services.sort());
  });
});

describe('the notes for a namespace whose name YAML does not read as a text', () => {
  it.each(oddNames.map((odd) => odd.replace('.', '-')))('%s show an Echo in it', async (namespace) => {
    const notes = await (await Helm.find('helm4')).notes({ watchNamespaces: [namespace] }, { namespace });
    const [, manifest = ''] = /<<'END'\n(.*?)\n *END$/ms.exec(notes) ?? [];
    expect(parse(manifest)).toMatchObject({ kind: 'Echo', metadata: { namespace } });
  });
});
