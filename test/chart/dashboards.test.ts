import { expect, it } from '@jest/globals';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { panelQueries, readDashboards } from '../../testkit/dashboards.ts';
import { ofExternal, ofRuntime } from '../../tools/generate/generate-operations.ts';
import { Helm, helmNames } from './helm.ts';

const queries = panelQueries({ __rate_interval: '1m', namespace: 'n', job: 'j', controller: '.*' });

it('every metric of the dashboards exists', () => {
  const everything = Registry.merge([ofRuntime(), ofExternal()]);
  collectDefaultMetrics({ register: everything });
  const known = everything.getMetricsAsArray().map(({ name }) => name);
  const named = queries.flatMap(({ expr }) => [...expr.matchAll(/(\w+)\{/g)].map(([, name = '']) => name));
  expect(named.length).toBeGreaterThanOrEqual(queries.length);
  expect(named.map((name) => name.replace(/_bucket$/, '')).filter((name) => !known.includes(name))).toEqual([]);
});

it('every metric of the runtime and of external systems is in a dashboard, or is told by one that is', () => {
  const shown = queries.map(({ expr }) => expr).join('\n');
  const metrics = [ofRuntime(), ofExternal()].flatMap((registry) => registry.getMetricsAsArray());
  const left = metrics.map(({ name }) => name).filter((name) => !shown.includes(name));
  expect(left).toEqual([
    'controller_runtime_max_concurrent_reconciles',
    'workqueue_unfinished_work_seconds',
    // Only after a fault.
    'informer_watches_replaced_total',
  ]);
});

it("the panels of kubebuilder's Grafana plugin find their metrics, with the labels by which they sum them", () => {
  // pkg/plugins/optional/grafana/v1alpha/scaffolds/internal/templates/{runtime,resources}.go of kubebuilder 4
  const needed: readonly (readonly [name: string, ...labels: string[]])[] = [
    ['controller_runtime_active_workers', 'controller'],
    ['controller_runtime_reconcile_errors_total'],
    ['controller_runtime_reconcile_total'],
    ['process_cpu_seconds_total'],
    ['process_resident_memory_bytes'],
    ['workqueue_adds_total', 'name'],
    ['workqueue_depth'],
    ['workqueue_queue_duration_seconds', 'name'],
    ['workqueue_retries_total', 'name'],
    ['workqueue_unfinished_work_seconds', 'name'],
    ['workqueue_work_duration_seconds', 'name'],
  ];
  const everything = ofRuntime();
  collectDefaultMetrics({ register: everything });
  const metrics = everything.getMetricsAsArray() as unknown as { name: string; labelNames: readonly string[] }[];
  const found = new Map(metrics.map(({ name, labelNames }) => [name, labelNames]));
  expect(needed.filter(([name, ...labels]) => labels.some((label) => !found.get(name)?.includes(label)))).toEqual([]);
  expect(needed.filter(([name]) => !found.has(name))).toEqual([]);
});

it('every legend names labels that the query keeps', () => {
  for (const { expr, legend } of queries) {
    const kept = /\bby \(([^)]*)\)/.exec(expr)?.[1]?.split(', ');
    const named = [...legend.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label);
    // A query without an aggregation keeps the labels of the target.
    expect(named.filter((label) => !(kept ?? ['pod']).includes(label ?? ''))).toEqual([]);
  }
});

it('the ConfigMap has both dashboards and the label of the sidecar', async () => {
  const helm = await Helm.find(helmNames[0]!);
  const isDashboard = ({ metadata }: { metadata?: { name?: string } }) => metadata?.name?.includes('dashboards');
  expect((await helm.render()).all('ConfigMap').filter(isDashboard)).toEqual([]);
  const render = async (dashboards: object) =>
    (await helm.render({ values: { metrics: { dashboards: { enabled: true, ...dashboards } } } }))
      .all('ConfigMap')
      .find(isDashboard);
  const { metadata, data = {} } = (await render({}))!;
  expect(metadata).toMatchObject({
    name: 'demo-echoperator-dashboards.operators',
    namespace: 'operators',
    labels: { grafana_dashboard: '1' },
  });
  expect(Object.entries(data).map(([file, text]) => [file, JSON.parse(text).uid])).toEqual([
    ['echoperator-kinds.json', 'echoperator-kinds'],
    ['echoperator-operator.json', 'echoperator-operator'],
  ]);
  const set = { namespace: 'monitoring', labels: { dashboards: 'mine' }, annotations: { grafana_folder: 'Operators' } };
  expect((await render(set))?.metadata).toMatchObject(set);
});

it.each([...readDashboards()])(
  'the dashboard %s shows at first five panels about health, and has its details folded',
  (_, panels) => {
    const rows = panels.filter(({ type }) => type === 'row');
    expect(rows[0]?.title).toBe('Is it healthy?');
    const [, second] = rows;
    const first = panels.filter(({ type, gridPos }) => type !== 'row' && gridPos.y < second!.gridPos.y);
    expect(first.map(({ type }) => type)).toEqual(['stat', 'stat', 'stat', 'stat', 'state-timeline']);
    // A screen has about 24 rows of Grafana's grid.
    expect(second!.gridPos.y).toBeLessThanOrEqual(12);
    for (const { title, collapsed, panels: inside = [] } of rows) {
      expect({ title, isFolded: collapsed === true, hasPanels: inside.length > 0 }).toEqual({
        title,
        isFolded: title!.startsWith('Details'),
        hasPanels: title!.startsWith('Details'),
      });
    }
  },
);
