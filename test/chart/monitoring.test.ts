import { describe, expect, it } from '@jest/globals';
import { Helm, helmNames } from './helm.ts';

const prometheusOperator = ['monitoring.coreos.com/v1/ServiceMonitor'];

describe.each(helmNames)('monitoring, by %s', (name) => {
  const render = async (monitoring: object = {}, apiVersions: readonly string[] = []) =>
    (await Helm.find(name)).render({ values: { monitoring }, apiVersions });

  it('has a Service that leads to the metrics', async () => {
    const rendering = await render({ port: 9090 });
    const service = rendering.one('Service', 'demo-echoperator-metrics').spec!;
    expect(service).toMatchObject({
      type: 'ClusterIP',
      ports: [{ name: 'metrics', port: 9090, targetPort: 'metrics' }],
    });
    const { selector, template } = rendering.one('Deployment').spec!;
    expect(service.selector).toEqual(selector.matchLabels);
    expect(template.spec?.containers[0]?.ports).toContainEqual({ name: 'metrics', containerPort: 9090 });
  });

  it('makes no ServiceMonitor where the cluster does not know that kind', async () => {
    expect((await render()).all('ServiceMonitor')).toEqual([]);
  });

  it('makes one where the cluster does', async () => {
    const values = { path: '/stats', interval: '1m30s', labels: { release: 'prom', 'app.kubernetes.io/name': 'mine' } };
    const rendering = await render(values, prometheusOperator);
    const { metadata, spec } = rendering.one('ServiceMonitor');
    expect(metadata).toMatchObject({
      name: 'demo-echoperator.operators',
      namespace: 'monitoring',
      labels: values.labels,
    });
    expect(spec.endpoints).toEqual([{ port: 'metrics', path: '/stats', interval: '1m30s' }]);
    expect(spec.namespaceSelector).toEqual({ matchNames: ['operators'] });
    const selected = rendering
      .all('Service')
      .filter((service) =>
        Object.entries(spec.selector.matchLabels).every(([key, value]) => service.metadata?.labels?.[key] === value),
      );
    expect(selected.map((service) => service.metadata?.name)).toEqual(['demo-echoperator-metrics']);
  });

  it("puts it into the release's namespace where none is named", async () => {
    const { metadata } = (await render({ namespace: '' }, prometheusOperator)).one('ServiceMonitor');
    expect(metadata.namespace).toBe('operators');
  });

  it('makes one in any case where it is forced, none where it is forbidden', async () => {
    expect((await render({ serviceMonitor: 'always' })).all('ServiceMonitor')).toHaveLength(1);
    expect((await render({ serviceMonitor: 'never' }, prometheusOperator)).all('ServiceMonitor')).toEqual([]);
  });

  it('switched off, leaves the probes and takes the rest away', async () => {
    const rendering = await render({ enabled: false, serviceMonitor: 'always' }, prometheusOperator);
    expect(rendering.names()).not.toContain('Service/demo-echoperator-metrics');
    expect(rendering.all('ServiceMonitor')).toEqual([]);
    expect(rendering.one('ConfigMap').data?.METRICS_ENABLED).toBe('false');
    expect(rendering.one('Deployment').spec?.template.spec?.containers[0]).toMatchObject({
      ports: [{ name: 'health' }],
      readinessProbe: { httpGet: { port: 'health' } },
    });
  });
});
