import * as common from '@grafana/grafana-foundation-sdk/common';
import {
  type Dashboard,
  DashboardBuilder,
  DatasourceVariableBuilder,
  MappingType,
  type Panel as PanelJson,
  QueryVariableBuilder,
  RowBuilder,
  ThresholdsConfigBuilder,
  ThresholdsMode,
  VariableRefresh,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as StatBuilder } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as StateTimelineBuilder } from '@grafana/grafana-foundation-sdk/statetimeline';
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
  /** Of 24 columns. */
  readonly width?: number;
}

interface NumberOptions extends PanelOptions {
  /** The values from which the number is yellow and red. Without them it is never coloured. */
  readonly limits?: Limits;
  /** Texts for the values 0 and 1. */
  readonly states?: States;
  /** Shows the name of the series instead of its value. */
  readonly showsName?: true;
  /** What the panel says without data. */
  readonly without?: string;
}

type Limits = readonly [yellow: number, red: number];

interface States {
  readonly 0: readonly [text: string, color: Color];
  readonly 1: readonly [text: string, color: Color];
}

type Color = 'green' | 'red' | 'blue';

/** Makes a panel. */
type Panel = { build(): PanelJson };

const query = ([expr, legend]: Query) => new DataqueryBuilder().datasource(datasource).expr(expr).legendFormat(legend);

/** A line per series. */
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
  return panel;
}

/** The last value of each series. */
function number(title: string, queries: readonly Query[], options: NumberOptions = {}): Panel {
  const { description = '', unit = 'short', width = 6, limits, states, showsName, without } = options;
  const panel = new StatBuilder()
    .title(title)
    .description(description)
    .datasource(datasource)
    .unit(unit)
    .height(4)
    .span(width)
    .graphMode(common.BigValueGraphMode.None)
    .colorMode(limits || states || showsName ? common.BigValueColorMode.Background : common.BigValueColorMode.None);
  for (const each of queries) panel.withTarget(query(each));
  if (limits) panel.thresholds(thresholds(limits));
  if (states) panel.mappings([mapping(states)]);
  if (showsName) panel.textMode(common.BigValueTextMode.Name);
  if (without !== undefined) panel.noValue(without);
  return panel;
}

/** A bar per series, coloured by its state. */
function timeline(title: string, shown: Query, states: States): Panel {
  return new StateTimelineBuilder()
    .title(title)
    .datasource(datasource)
    .height(5)
    .span(24)
    .mappings([mapping(states)])
    .legend(new common.VizLegendOptionsBuilder().showLegend(false))
    .withTarget(query(shown));
}

const thresholds = ([yellow, red]: Limits) =>
  new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps([
    { value: null, color: 'green' },
    { value: yellow, color: 'yellow' },
    { value: red, color: 'red' },
  ]);

const mapping = (states: States) => ({
  type: MappingType.ValueToText as const,
  options: Object.fromEntries(
    Object.entries(states).map(([value, [text, color]]: [string, readonly [string, Color]]) => [
      value,
      { text, color },
    ]),
  ),
});

interface Row {
  readonly title: string;
  /** Whether a reader opens the row to see its panels. */
  readonly isFolded: boolean;
  readonly panels: readonly Panel[];
}

const row = (title: string, panels: readonly Panel[]): Row => ({ title, isFolded: false, panels });
const folded = (title: string, panels: readonly Panel[]): Row => ({ title, isFolded: true, panels });

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
    rows,
  }: {
    readonly description: string;
    readonly variables?: readonly QueryVariableBuilder[];
    readonly rows: readonly Row[];
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
  for (const { title: rowTitle, isFolded, panels } of rows) {
    const shown = new RowBuilder(rowTitle);
    if (isFolded) {
      for (const panel of panels) shown.withPanel(panel);
      builder.withRow(shown.collapsed(true));
    } else {
      builder.withRow(shown);
      for (const panel of panels) builder.withPanel(panel);
    }
  }
  return builder.build();
}

const variable = (name: string, metric: string, label: string): QueryVariableBuilder =>
  new QueryVariableBuilder(name)
    .datasource(datasource)
    .query(`label_values(${metric}, ${label})`)
    .refresh(VariableRefresh.OnTimeRangeChanged);

const up: States = { 0: ['down', 'red'], 1: ['up', 'green'] };

const failedShare = (by: string, labels: string): string => {
  const errors = sumBy(by, rate('controller_runtime_reconcile_errors_total', labels));
  return `${errors} / ${sumBy(by, rate('controller_runtime_reconcile_total', labels))}`;
};

const operator = dashboard('Operator', 'echoperator-operator', {
  description: 'Health, work and cost of one operator. The folded rows have the details.',
  rows: [
    row('Is it healthy?', [
      number('Leader', [[`leader_election_master_status{${target}} == 1`, '{{pod}}']], {
        showsName: true,
        without: 'no leader',
      }),
      number('Failed reconciles', [[failedShare('job', target), 'failed']], {
        description: 'The alert EchoperatorReconcilesFailing fires above 50 % of one controller.',
        unit: 'percentunit',
        limits: [0.1, 0.5],
      }),
      number('Stuck reconciles', [[`sum(controller_stuck_reconciles{${target}})`, 'stuck']], {
        description: 'Reconciles that have run for more than a minute.',
        limits: [1, 2],
      }),
      number('Oldest cache', [[`max(informer_last_event_age_seconds{${target}})`, 'age']], {
        description:
          'Time since the API server last confirmed a cache. Ten minutes are normal for a kind that nobody writes.',
        unit: 's',
        limits: [660, 1200],
      }),
      timeline('Who leads', [`leader_election_master_status{${target}}`, '{{pod}}'], {
        0: ['standby', 'blue'],
        1: ['leader', 'green'],
      }),
    ]),
    row('What does it do?', [
      graph('From an event to the end of its reconcile', percentiles('controller_event_latency_seconds', '', ''), {
        unit: 's',
        width: 12,
      }),
      graph('Reconciles by result', [[sumBy('result', rate('controller_runtime_reconcile_total')), '{{result}}']], {
        unit: 'ops',
        width: 12,
      }),
      graph('Keys in the queue', [[sumBy('name', `workqueue_depth{${target}}`), '{{name}}']], { width: 12 }),
      graph('Requests by code', [[sumBy('method, code', rate('rest_client_requests_total')), '{{method}} {{code}}']], {
        unit: 'reqps',
        width: 12,
      }),
    ]),
    row('What does it cost?', [
      graph('CPU', [[rate('process_cpu_seconds_total'), '{{pod}}']], { description: 'In cores.' }),
      graph('Memory', [[`process_resident_memory_bytes{${target}}`, '{{pod}}']], { unit: 'bytes' }),
      graph('Lag of the event loop', [[`nodejs_eventloop_lag_max_seconds{${target}}`, '{{pod}}']], {
        description: 'A renewal of the Lease waits as long.',
        unit: 's',
      }),
    ]),
    folded('Details: leadership', [
      number('Replicas', [[`count(leader_election_master_status{${target}})`, 'replicas']], { width: 4 }),
      number('Restarts in this hour', [[`sum(changes(process_start_time_seconds{${target}}[1h]))`, 'restarts']], {
        width: 4,
      }),
      number(
        'Changes of the leader in this hour',
        [[`floor(increase(max(leader_election_lease_transitions{${target}})[1h:30s]))`, 'changes']],
        { width: 4, limits: [3, 20] },
      ),
      number('Takeovers', [[sumBy('reason', `leader_election_takeovers_total{${target}}`), '{{reason}}']], {
        description: 'Of the running replicas, by why the Lease was free.',
      }),
      number('Fence closings', [[sumBy('reason', `leader_election_fence_closings_total{${target}}`), '{{reason}}']], {
        description: 'Replicas that may no longer write; most end before they are scraped again.',
      }),
    ]),
    folded('Details: reconciles and queues', [
      graph('Errors', [[sumBy('controller', rate('controller_runtime_reconcile_errors_total')), '{{controller}}']], {
        unit: 'ops',
      }),
      graph('Duration of a reconcile', percentiles('controller_runtime_reconcile_time_seconds', '', ''), { unit: 's' }),
      graph('Busy workers', [[sumBy('controller', `controller_runtime_active_workers{${target}}`), '{{controller}}']]),
      graph('Time in the queue', percentiles('workqueue_queue_duration_seconds', '', ''), { unit: 's' }),
      graph('Work on a key', percentiles('workqueue_work_duration_seconds', '', ''), { unit: 's' }),
      graph(
        'Longest work on a key',
        [[`max by (name) (workqueue_longest_running_processor_seconds{${target}})`, '{{name}}']],
        { unit: 's' },
      ),
      graph(
        'Adds and retries',
        [
          [`sum(${rate('workqueue_adds_total')})`, 'adds'],
          [`sum(${rate('workqueue_retries_total')})`, 'retries'],
        ],
        { unit: 'ops' },
      ),
    ]),
    folded('Details: caches', [
      graph(
        'Age of the last event',
        [[`max by (resource) (informer_last_event_age_seconds{${target}})`, '{{resource}}']],
        {
          description: 'Bookmarks count as events, so the age normally stays below about a minute.',
          unit: 's',
          width: 12,
        },
      ),
      graph('Cached objects', [[`max by (resource) (informer_cached_objects{${target}})`, '{{resource}}']], {
        width: 12,
      }),
      number('Lists', [[sumBy('resource', `reflector_lists_total{${target}}`), '{{resource}}']], {
        description: 'Of the running replicas. Lists after the start are relists.',
        width: 12,
      }),
      number('Unreadable objects', [[`max(informer_unreadable_objects{${target}})`, 'objects']], {
        description: 'A warning in the log names each.',
        width: 12,
        limits: [1, 10],
      }),
      graph(
        'Failed lists and watches',
        [[sumBy('resource, verb', rate('reflector_errors_total')), '{{verb}} {{resource}}']],
        { unit: 'ops', width: 24 },
      ),
    ]),
  ],
});

const kinds = dashboard('Kinds of the operator', 'echoperator-kinds', {
  description: 'What the operator does for each kind, and the external systems that Pets and PostgresWriters need.',
  variables: [
    variable('controller', 'controller_runtime_reconcile_total{namespace="$namespace",job="$job"}', 'controller')
      .multi(true)
      .includeAll(true),
  ],
  rows: [
    row('Is it healthy?', [
      number('Failed reconciles', [[failedShare('controller', ofKinds), '{{controller}}']], {
        unit: 'percentunit',
        width: 8,
        limits: [0.1, 0.5],
      }),
      number(
        'Failures that need attention in this hour',
        [
          ['terminal_reconcile_errors_total', 'terminal errors'],
          ['reconcile_panics_total', 'defects'],
          ['reconcile_timeouts_total', 'timeouts'],
        ].map(([metric, legend = '']) => [
          `floor(sum(increase(controller_runtime_${metric}{${ofKinds}}[1h])))`,
          legend,
        ]),
        { width: 8, limits: [1, 10] },
      ),
      number('Pet store', [[`min(echoperator_external_system_up{${target},system="petstore"})`, 'pet store']], {
        states: up,
        width: 4,
        without: 'not used',
      }),
      number('Database', [[`min(echoperator_external_system_up{${target},system="postgres"})`, 'database']], {
        states: up,
        width: 4,
        without: 'not used',
      }),
      timeline('External systems', [`min by (system) (echoperator_external_system_up{${target}})`, '{{system}}'], up),
    ]),
    row('What does it do?', [
      graph(
        'From an event to the end of its reconcile',
        percentiles('controller_event_latency_seconds', 'controller', '{{controller}}', ofKinds),
        { unit: 's', width: 12 },
      ),
      graph(
        'Reconciles',
        [[sumBy('controller', rate('controller_runtime_reconcile_total', ofKinds)), '{{controller}}']],
        { unit: 'ops', width: 12 },
      ),
      graph('Keys in the queue', [[sumBy('controller', `workqueue_depth{${ofKinds}}`), '{{controller}}']], {
        width: 12,
      }),
      graph('Objects', [[`max by (resource) (informer_cached_objects{${target}})`, '{{resource}}']], { width: 12 }),
    ]),
    folded('Details: reconciles', [
      graph('Failed share', [[failedShare('controller', ofKinds), '{{controller}}']], {
        unit: 'percentunit',
        width: 12,
      }),
      graph(
        'Duration of a reconcile',
        percentiles('controller_runtime_reconcile_time_seconds', 'controller', '{{controller}}', ofKinds),
        { unit: 's', width: 12 },
      ),
    ]),
    folded('Details: the pet store', [
      graph(
        'Calls by code',
        [[sumBy('grpc_method, grpc_code', rate('grpc_client_handled_total')), '{{grpc_method}} {{grpc_code}}']],
        { unit: 'reqps', width: 12 },
      ),
      graph('Duration of a call', percentiles('grpc_client_handling_seconds', 'grpc_method', '{{grpc_method}}'), {
        unit: 's',
        width: 12,
      }),
    ]),
    folded('Details: the database', [
      graph('Statements by result', [[sumBy('result', rate('echoperator_postgres_statements_total')), '{{result}}']], {
        unit: 'ops',
        width: 12,
      }),
      graph('Duration of a statement', percentiles('echoperator_postgres_statement_seconds', '', ''), {
        unit: 's',
        width: 12,
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
    ]),
  ],
});

/** The dashboards by path. */
export const dashboards = (): readonly [path: string, content: string][] =>
  Object.entries({ operator, kinds }).map(([name, built]) => [
    `${dashboardsFolder}/${name}.json`,
    `${JSON.stringify(built, null, 2)}\n`,
  ]);
