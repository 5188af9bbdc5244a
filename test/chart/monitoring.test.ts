import { describe, expect, it } from '@jest/globals';
import { Helm, helmNames } from './helm.ts';
import type { Rendering, ServiceMonitor } from './rendering.ts';

const prometheusOperator = ['monitoring.coreos.com/v1/ServiceMonitor'];

const selectedBy = ({ selector }: ServiceMonitor['spec'], rendering: Rendering) =>
  rendering
    .all('Service')
    .filter(({ metadata }) =>
      Object.entries(selector.matchLabels).every(([key, value]) => metadata?.labels?.[key] === value),
    );

describe.each(helmNames)('monitoring, by %s', (name) => {
  const render = async (monitoring: object = {}, apiVersions: readonly string[] = []) =>
    (await Helm.find(name)).render({ values: { monitoring }, apiVersions });

  it('has a Service for the metrics', async () => {
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

  it('creates no ServiceMonitor if the cluster does not serve that kind', async () => {
    expect((await render()).all('ServiceMonitor')).toEqual([]);
  });

  it('creates one if the cluster does', async () => {
    const values = { path: '/stats', interval: '1m30s', labels: { release: 'prom', 'app.kubernetes.io/name': 'mine' } };
    const rendering = await render(values, prometheusOperator);
    const { metadata, spec } = rendering.one('ServiceMonitor');
    expect(metadata).toMatchObject({
      name: 'demo-echoperator.operators',
      namespace: 'operators',
      labels: values.labels,
    });
    expect(spec.endpoints).toEqual([{ port: 'metrics', path: '/stats', interval: '1m30s' }]);
    expect(spec.namespaceSelector).toEqual({ matchNames: ['operators'] });
    expect(selectedBy(spec, rendering).map((service) => service.metadata?.name)).toEqual(['demo-echoperator-metrics']);
  });

  it("creates another one for the pet store's metrics if the chart runs a pet store", async () => {
    const monitoring = { path: '/stats', interval: '30s', labels: { release: 'prom' } };
    const values = { monitoring, petstore: { enabled: true, tls: { enabled: false } } };
    const rendering = await (await Helm.find(name)).render({ values, apiVersions: prometheusOperator });
    expect(
      rendering
        .all('ServiceMonitor')
        .map(({ metadata }) => metadata.name ?? '')
        .sort(),
    ).toEqual(['demo-echoperator-petstore.operators', 'demo-echoperator.operators']);
    const { metadata, spec } = rendering.one('ServiceMonitor', 'demo-echoperator-petstore.operators');
    expect(metadata).toMatchObject({ namespace: 'operators', labels: { release: 'prom' } });
    // The pet store has its own path.
    expect(spec.endpoints).toEqual([{ port: 'http', path: '/metrics', interval: '30s' }]);
    const [service, ...others] = selectedBy(spec, rendering);
    expect(others).toEqual([]);
    expect(service?.metadata?.name).toBe('petstore-service');
    expect(service?.spec?.ports).toContainEqual({ name: 'http', port: 8080, targetPort: 'http' });
    const withoutMonitor = { ...values, monitoring: { ...monitoring, enabled: false, serviceMonitor: 'always' } };
    expect((await (await Helm.find(name)).render({ values: withoutMonitor })).all('ServiceMonitor')).toEqual([]);
  });

  it('creates it in the namespace that the values name', async () => {
    const { metadata } = (await render({ namespace: 'monitoring' }, prometheusOperator)).one('ServiceMonitor');
    expect(metadata.namespace).toBe('monitoring');
  });

  it("with scope.namespaced creates one by itself only in the release's namespace", async () => {
    const namespaces = async (monitoring: object) =>
      (await renderWith({ scope: { namespaced: true }, monitoring }, prometheusOperator))
        .all('ServiceMonitor')
        .map(({ metadata }) => metadata.namespace);
    expect(await namespaces({})).toEqual(['operators']);
    expect(await namespaces({ namespace: 'monitoring' })).toEqual([]);
    expect(await namespaces({ namespace: 'monitoring', serviceMonitor: 'always' })).toEqual(['monitoring']);
  });

  it('always creates one with `always`, and none with `never`', async () => {
    expect((await render({ serviceMonitor: 'always' })).all('ServiceMonitor')).toHaveLength(1);
    expect((await render({ serviceMonitor: 'never' }, prometheusOperator)).all('ServiceMonitor')).toEqual([]);
  });

  const endpoint = {
    interval: '5s',
    scrapeTimeout: '4s',
    relabelings: [{ action: 'drop' }],
    metricRelabelings: [{ regex: 'a' }],
  };
  const renderWith = async (values: object, apiVersions: readonly string[] = []) =>
    (await Helm.find(name)).render({ values, apiVersions });

  it('takes metrics.serviceMonitor before the keys of the original chart', async () => {
    const monitoring = { serviceMonitor: 'never', namespace: 'old', interval: '1m', labels: { release: 'old' } };
    const serviceMonitor = { enabled: true, namespace: 'new', labels: { team: 'a' }, ...endpoint };
    const { metadata, spec } = (await renderWith({ monitoring, metrics: { serviceMonitor } })).one('ServiceMonitor');
    expect(metadata).toMatchObject({ namespace: 'new', labels: { team: 'a' } });
    expect(metadata.labels).not.toHaveProperty('release');
    expect(spec.endpoints).toEqual([{ port: 'metrics', path: '/metrics', ...endpoint }]);
    const off = { monitoring: { serviceMonitor: 'always' }, metrics: { serviceMonitor: { enabled: false } } };
    expect((await renderWith(off)).all('ServiceMonitor')).toEqual([]);
  });

  it('metrics.podMonitor creates PodMonitors instead of ServiceMonitors', async () => {
    const values = {
      metrics: { podMonitor: { enabled: true, ...endpoint } },
      petstore: { enabled: true, tls: { enabled: false } },
    };
    const rendering = await renderWith(values, prometheusOperator);
    expect(rendering.all('ServiceMonitor')).toEqual([]);
    const { metadata, spec } = rendering.one('PodMonitor', 'demo-echoperator.operators');
    expect(metadata).toMatchObject({ namespace: 'operators', labels: { release: 'monitoring' } });
    expect(spec).toEqual({
      namespaceSelector: { matchNames: ['operators'] },
      selector: rendering.one('Deployment').spec!.selector,
      podMetricsEndpoints: [{ port: 'metrics', path: '/metrics', ...endpoint }],
    });
    const ofPetStore = rendering.one('PodMonitor', 'demo-echoperator-petstore.operators').spec;
    expect(ofPetStore.selector).toEqual(rendering.one('StatefulSet').spec!.selector);
    const both = { metrics: { serviceMonitor: { enabled: true }, podMonitor: { enabled: true } } };
    expect((await renderWith(both)).names()).toEqual(
      expect.arrayContaining(['PodMonitor/demo-echoperator.operators', 'ServiceMonitor/demo-echoperator.operators']),
    );
    const off = { monitoring: { enabled: false }, metrics: both.metrics };
    expect((await renderWith(off)).names().filter((each) => each.includes('Monitor'))).toEqual([]);
  });

  it('when off, keeps only the probes', async () => {
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
