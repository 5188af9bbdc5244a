import { describe, expect, it } from '@jest/globals';
import { Helm, helmNames } from './helm.ts';

const tcp = (port: number | string) => ({ protocol: 'TCP', port });
const testPod = {
  podSelector: {
    matchLabels: { 'app.kubernetes.io/name': 'echoperator-test', 'app.kubernetes.io/instance': 'demo' },
  },
};

describe.each(helmNames)('network policies, by %s', (name) => {
  const render = async (networkPolicy: object = {}, values: object = {}) =>
    (await Helm.find(name)).render({ values: { ...values, networkPolicy: { enabled: true, ...networkPolicy } } });

  it('are off by default', async () => {
    expect((await render({ enabled: false })).all('NetworkPolicy')).toEqual([]);
  });

  it('allow the operator to reach the API server and to serve health and metrics', async () => {
    const rendering = await render();
    expect(rendering.one('NetworkPolicy', 'demo-echoperator').spec).toEqual({
      podSelector: rendering.one('Deployment').spec?.selector,
      policyTypes: ['Ingress', 'Egress'],
      ingress: [{ ports: [tcp('health')] }, { ports: [tcp('metrics')] }],
      egress: [{ ports: [tcp(443), tcp(6443)] }],
    });
  });

  it('can be restricted and extended by the values', async () => {
    const scraper = { namespaceSelector: { matchLabels: { name: 'monitoring' } } };
    const database = { ports: [tcp(5432)] };
    const rendering = await render({
      apiServer: { ports: [443], cidrs: ['10.96.0.1/32', 'fd00::1/128'] },
      metrics: { from: [scraper] },
      extraEgress: [database],
    });
    expect(rendering.one('NetworkPolicy', 'demo-echoperator').spec).toMatchObject({
      ingress: [{ ports: [tcp('health')] }, { ports: [tcp('metrics')], from: [testPod, scraper] }],
      egress: [
        { ports: [tcp(443)], to: [{ ipBlock: { cidr: '10.96.0.1/32' } }, { ipBlock: { cidr: 'fd00::1/128' } }] },
        database,
      ],
    });
  });

  it('do not open the metrics port if metrics are off', async () => {
    const rendering = await render({}, { monitoring: { enabled: false } });
    expect(rendering.one('NetworkPolicy', 'demo-echoperator').spec?.ingress).toEqual([{ ports: [tcp('health')] }]);
  });

  it.each(['demo-echoperator-crds', 'demo-echoperator-uninstall'])(
    'allow the Job %s to reach the API server, and nothing to reach the Job',
    async (job) => {
      const rendering = await render();
      const { podSelector, policyTypes, ingress, egress } = rendering.one('NetworkPolicy', job).spec!;
      expect({ policyTypes, ingress, egress }).toEqual({
        policyTypes: ['Ingress', 'Egress'],
        ingress: undefined,
        egress: [{ ports: [tcp(443), tcp(6443)] }],
      });
      expect(rendering.one('Job', job).spec?.template.metadata?.labels).toMatchObject(podSelector!.matchLabels!);
    },
  );

  it('allow `helm test` to resolve names and reach the operator', async () => {
    const rendering = await render();
    const { podSelector, egress } = rendering.one('NetworkPolicy', 'demo-echoperator-test').spec!;
    expect(podSelector).toEqual(testPod.podSelector);
    expect(rendering.one('Pod').metadata?.labels).toMatchObject(podSelector!.matchLabels!);
    expect(egress).toEqual([
      { ports: [{ protocol: 'UDP', port: 53 }, tcp(53)] },
      { to: [{ podSelector: rendering.one('Deployment').spec?.selector }] },
    ]);
  });
});
