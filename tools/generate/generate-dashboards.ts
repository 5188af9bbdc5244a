import {
  type Dashboard,
  DashboardBuilder,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  VariableRefresh,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as StatBuilder } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as TimeseriesBuilder } from '@grafana/grafana-foundation-sdk/timeseries';

/** Contains the dashboards as JSON. */
export const dashboardsFolder = 'charts/echoperator/files/dashboards';

const datasource = { type: 'prometheus', uid: '$datasource' };

/** As in the dashboards of kubebuilder's Grafana plugin, which work with the operator's metrics too. */
const target = 'job="$job",namespace="$namespace"';
const ofKinds = `${target},controller=~"$controller"`;

/** A query: its expression and its legend. */
type Query = readonly [expr: string, legend: string];

interface PanelOptions {
  /** Information that the panel's title does not have. */
  readonly description?: string;
  readonly unit?: string;
  /** Of 24 columns. Default 8. */
  readonly width?: number;
}

type Panel = (builder: DashboardBuilder) => DashboardBuilder;

const query = ([expr, legend]: Query) => new DataqueryBuilder().datasource(datasource).expr(expr).legendFormat(legend);

function graph(title: string, queries: readonly Query[], options: PanelOptions = {}): Panel {
  const { description = '', unit = 'short', width = 8 } = options;
  const panel = new TimeseriesBuilder()
    .title(title)
    .description(description)
    .datasource(datasource)
    .unit(unit)
    .min(0)
    .height(7)
    .span(width)
    .fillOpacity(10);
  for (const each of queries) panel.withTarget(query(each));
  return (builder) => builder.withPanel(panel);
}

function number(title: string, shown: Query, options: PanelOptions = {}): Panel {
  const { description = '', unit = 'short', width = 6 } = options;
  const panel = new StatBuilder()
    .title(title)
    .description(description)
    .datasource(datasource)
    .unit(unit)
    .height(4)
    .span(width)
    .withTarget(query(shown));
  return (builder) => builder.withPanel(panel);
}

const row =
  (title: string): Panel =>
  (builder) =>
    builder.withRow(new RowBuilder(title));

const rate = (metric: string, labels = target): string => `rate(${metric}{${labels}}[$__rate_interval])`;
const sumBy = (by: string, of: string): string => `sum by (${by}) (${of})`;

/** The median and the 99th percentile of a histogram. */
const percentiles = (metric: string, by: string, legend: string, labels = target): readonly Query[] =>
  [0.5, 0.99].map((quantile) => [
    `histogram_quantile(${quantile}, ${sumBy(['le', by].filter(Boolean).join(', '), rate(`${metric}_bucket`, labels))})`,
    `${legend} p${quantile * 100}`.trim(),
  ]);

function dashboard(
  title: string,
  uid: string,
  {
    description,
    variables = [],
    panels,
  }: {
    readonly description: string;
    readonly variables?: readonly QueryVariableBuilder[];
    readonly panels: readonly Panel[];
  },
): Dashboard {
  const builder = new DashboardBuilder(title)
    .uid(uid)
    .description(description)
    .tags(['kubernetes', 'echoperator'])
    .editable()
    .refresh('30s')
    .time({ from: 'now-1h', to: 'now' })
    .timezone('browser')
    .withVariable(new DatasourceVariableBuilder('datasource').label('Data source').type('prometheus'))
    .withVariable(variable('namespace', 'controller_runtime_reconcile_total', 'namespace'))
    .withVariable(variable('job', 'controller_runtime_reconcile_total{namespace="$namespace"}', 'job'));
  for (const each of variables) builder.withVariable(each);
  for (const panel of panels) panel(builder);
  return builder.build();
}

const variable = (name: string, metric: string, label: string): QueryVariableBuilder =>
  new QueryVariableBuilder(name)
    .datasource(datasource)
    .query(`label_values(${metric}, ${label})`)
    .refresh(VariableRefresh.OnTimeRangeChanged);

const operator = dashboard('Operator', 'echoperator-operator', {
  description: 'Leadership, queues, caches and requests of one operator.',
  panels: [
    row('Leadership'),
    number('Leader', [`leader_election_master_status{${target}} == 1`, '{{pod}}'], { width: 8 }),
    number(
      'Changes of the leader in this hour',
      [`floor(increase(max(leader_election_lease_transitions{${target}})[1h:30s]))`, 'changes'],
      { width: 4 },
    ),
    number('Replicas', [`count(leader_election_master_status{${target}})`, 'replicas'], { width: 4 }),
    number('Restarts in this hour', [`sum(changes(process_start_time_seconds{${target}}[1h]))`, 'restarts'], {
      width: 4,
    }),
    number('Stuck reconciles', [`sum(controller_stuck_reconciles{${target}})`, 'stuck'], { width: 4 }),
    graph('Takeovers', [[sumBy('reason', `leader_election_takeovers_total{${target}}`), 'led after {{reason}}']], {
      description: 'Of the running replicas, by why the Lease was free.',
      width: 12,
    }),
    graph('Fence closings', [[sumBy('reason', `leader_election_fence_closings_total{${target}}`), '{{reason}}']], {
      description: 'Replicas that may no longer write; most end before they are scraped again.',
      width: 12,
    }),
    row('Reconciles'),
    graph('Reconciles by result', [[sumBy('result', rate('controller_runtime_reconcile_total')), '{{result}}']], {
      unit: 'ops',
    }),
    graph('Errors', [[sumBy('controller', rate('controller_runtime_reconcile_errors_total')), '{{controller}}']], {
      unit: 'ops',
    }),
    graph('Duration of a reconcile', percentiles('controller_runtime_reconcile_time_seconds', '', ''), { unit: 's' }),
    graph('Busy workers', [[sumBy('controller', `controller_runtime_active_workers{${target}}`), '{{controller}}']]),
    graph('Keys in the queue', [[sumBy('name', `workqueue_depth{${target}}`), '{{name}}']]),
    graph('Time in the queue', percentiles('workqueue_queue_duration_seconds', '', ''), { unit: 's' }),
    graph(
      'Adds and retries',
      [
        [`sum(${rate('workqueue_adds_total')})`, 'adds'],
        [`sum(${rate('workqueue_retries_total')})`, 'retries'],
      ],
      { unit: 'ops' },
    ),
    graph('Work on a key', percentiles('workqueue_work_duration_seconds', '', ''), { unit: 's' }),
    graph(
      'Longest work on a key',
      [[`max by (name) (workqueue_longest_running_processor_seconds{${target}})`, '{{name}}']],
      { unit: 's' },
    ),
    row('Caches'),
    graph(
      'Age of the last event',
      [[`max by (resource) (informer_last_event_age_seconds{${target}})`, '{{resource}}']],
      {
        description: 'Bookmarks count as events, so the age normally stays below about a minute.',
        unit: 's',
      },
    ),
    graph('Cached objects', [
      [`max by (resource) (informer_cached_objects{${target}})`, '{{resource}}'],
      [`max by (resource) (informer_unreadable_objects{${target}}) > 0`, '{{resource}}, unreadable'],
    ]),
    graph(
      'Lists',
      [[sumBy('resource', `increase(reflector_lists_total{${target}}[$__rate_interval])`), '{{resource}}']],
      {
        description: 'Lists after the start are relists.',
      },
    ),
    graph(
      'Failed lists and watches',
      [[sumBy('resource, verb', rate('reflector_errors_total')), '{{verb}} {{resource}}']],
      {
        unit: 'ops',
      },
    ),
    row('API server and process'),
    graph('Requests by code', [[sumBy('method, code', rate('rest_client_requests_total')), '{{method}} {{code}}']], {
      unit: 'reqps',
    }),
    graph('CPU', [[rate('process_cpu_seconds_total'), '{{pod}}']], { description: 'In cores.' }),
    graph('Memory', [[`process_resident_memory_bytes{${target}}`, '{{pod}}']], { unit: 'bytes' }),
    graph('Lag of the event loop', [[`nodejs_eventloop_lag_max_seconds{${target}}`, '{{pod}}']], {
      description: 'A renewal of the Lease waits as long.',
      unit: 's',
    }),
  ],
});

const kinds = dashboard('Kinds of the operator', 'echoperator-kinds', {
  description: 'What the operator does for each kind, and the external systems that Pets and PostgresWriters need.',
  variables: [
    variable('controller', 'controller_runtime_reconcile_total{namespace="$namespace",job="$job"}', 'controller')
      .multi(true)
      .includeAll(true),
  ],
  panels: [
    row('Kinds'),
    graph(
      'From an event to the end of its reconcile',
      percentiles('controller_event_latency_seconds', 'controller', '{{controller}}', ofKinds),
      {
        unit: 's',
        width: 12,
      },
    ),
    graph(
      'Reconciles',
      [[sumBy('controller', rate('controller_runtime_reconcile_total', ofKinds)), '{{controller}}']],
      {
        unit: 'ops',
        width: 12,
      },
    ),
    graph(
      'Failed share',
      [
        [
          `${sumBy('controller', rate('controller_runtime_reconcile_errors_total', ofKinds))} / ${sumBy('controller', rate('controller_runtime_reconcile_total', ofKinds))}`,
          '{{controller}}',
        ],
      ],
      { unit: 'percentunit' },
    ),
    graph(
      'Failures that need attention',
      [
        [
          sumBy('controller', rate('controller_runtime_terminal_reconcile_errors_total', ofKinds)),
          '{{controller}} terminal',
        ],
        [sumBy('controller', rate('controller_runtime_reconcile_panics_total', ofKinds)), '{{controller}} defect'],
        [sumBy('controller', rate('controller_runtime_reconcile_timeouts_total', ofKinds)), '{{controller}} timeout'],
      ],
      { unit: 'ops' },
    ),
    graph(
      'Duration of a reconcile',
      percentiles('controller_runtime_reconcile_time_seconds', 'controller', '{{controller}}', ofKinds),
      { unit: 's' },
    ),
    graph('Keys in the queue', [[sumBy('controller', `workqueue_depth{${ofKinds}}`), '{{controller}}']]),
    graph('Objects', [[`max by (resource) (informer_cached_objects{${target}})`, '{{resource}}']]),
    row('The pet store'),
    number('Pet store', [`min(echoperator_external_system_up{${target},system="petstore"})`, 'up'], {
      description: '1: the system is available.',
      width: 4,
    }),
    graph(
      'Calls by code',
      [[sumBy('grpc_method, grpc_code', rate('grpc_client_handled_total')), '{{grpc_method}} {{grpc_code}}']],
      {
        unit: 'reqps',
        width: 10,
      },
    ),
    graph('Duration of a call', percentiles('grpc_client_handling_seconds', 'grpc_method', '{{grpc_method}}'), {
      unit: 's',
      width: 10,
    }),
    row('The database'),
    number('Database', [`min(echoperator_external_system_up{${target},system="postgres"})`, 'up'], {
      description: '1: the system is available.',
      width: 4,
    }),
    graph('Statements by result', [[sumBy('result', rate('echoperator_postgres_statements_total')), '{{result}}']], {
      unit: 'ops',
      width: 10,
    }),
    graph('Duration of a statement', percentiles('echoperator_postgres_statement_seconds', '', ''), {
      unit: 's',
      width: 10,
    }),
    graph(
      'Connections',
      [
        [sumBy('state', `echoperator_postgres_connections{${target}}`), '{{state}}'],
        [`max(echoperator_postgres_max_connections{${target}})`, 'most'],
      ],
      { width: 12 },
    ),
    graph(
      'Statements that wait for a connection',
      [[`sum(echoperator_postgres_waiting_statements{${target}})`, 'statements']],
      { width: 12 },
    ),
  ],
});

/** The dashboards by path. */
export const dashboards = (): readonly [path: string, content: string][] =>
  Object.entries({ operator, kinds }).map(([name, built]) => [
    `${dashboardsFolder}/${name}.json`,
    `${JSON.stringify(built, null, 2)}\n`,
  ]);
