import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { execa } from 'execa';
import { stringify } from 'yaml';
import { panelQueries } from '../../testkit/dashboards.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { Helm, helmNames } from './helm.ts';

const values = { metrics: { prometheusRule: { enabled: true } } };
const { spec } = (await (await Helm.find(helmNames[0]!)).render({ release: 'demo', values })).one('PrometheusRule');
const rules = spec.groups.flatMap((group) => group.rules);
const target = 'namespace="operators",pod="demo-echoperator-5f-a"';
const other = 'namespace="operators",pod="demo-echoperator-5f-b"';
const lease = 'name="demo-echoperator"';

let folder: string;
let promtool: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'alerts-'));
  promtool = (await ensureBinaries(['promtool'])).get('promtool')!;
  await writeFile(join(folder, 'rules.yaml'), stringify(spec));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** What a test says of the alerts at a time: the labels of those that fire. */
type Firing = Readonly<Record<string, readonly Readonly<Record<string, string>>[]>>;

/** Series in promtool's notation, with a value every minute: `0x5 1x10`. */
type Series = Readonly<Record<string, string>>;

async function expectAlerts(series: Series, times: Firing): Promise<void> {
  const test = {
    interval: '1m',
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    promql_expr_test: Object.entries(times).map(([eval_time, alerts]) => ({
      expr: 'ALERTS{alertstate="firing"}',
      eval_time,
      exp_samples: alerts.map((labels) => ({
        labels: `ALERTS{${Object.entries({ ...labels, alertstate: 'firing' })
          .map(([name, value]) => `${name}="${value}"`)
          .join()}}`,
        value: 1,
      })),
    })),
  };
  const file = join(await mkdtemp(join(folder, 'test-')), 'test.yaml');
  const rule_files = [join(folder, 'rules.yaml')];
  await writeFile(file, stringify({ rule_files, evaluation_interval: '1m', tests: [test] }));
  const { exitCode, all } = await execa(promtool, ['test', 'rules', file], { all: true, reject: false });
  expect({ exitCode, all: exitCode === 0 ? '' : all }).toEqual({ exitCode: 0, all: '' });
}

/** Somebody leads. */
const calm = { [`leader_election_master_status{${target},${lease}}`]: '1x120' };
const noLeader = { alertname: 'EchoperatorNoLeader', severity: 'critical' };
const warning = (alertname: string, labels: object = {}) => ({ alertname, severity: 'warning', ...labels });

const check = (file: string, ...flags: readonly string[]) =>
  execa(promtool, ['check', 'rules', ...flags, join(folder, file)]);

it('the alerts are valid', async () => {
  const { stdout } = await check('rules.yaml', '--lint=all', '--lint-fatal');
  expect(stdout).toContain(`SUCCESS: ${rules.length} rules found`);
});

it('the queries of the dashboards are valid', async () => {
  const queries = panelQueries({ __rate_interval: '1m', namespace: 'n', job: 'j', controller: '.*' });
  const recorded = queries.map(({ expr }, index) => ({ record: `query:${index}`, expr }));
  await writeFile(join(folder, 'queries.yaml'), stringify({ groups: [{ name: 'queries', rules: recorded }] }));
  const { stdout } = await check('queries.yaml');
  expect(stdout).toContain(`SUCCESS: ${queries.length} rules found`);
});

describe('an alert fires and resolves', () => {
  it('EchoperatorNoLeader: nobody leads for a minute', () =>
    expectAlerts(
      {
        [`leader_election_master_status{${target},${lease}}`]: '1x5 0x4 0x10',
        [`leader_election_master_status{${other},${lease}}`]: '0x10 1x10',
      },
      { '5m': [], '9m': [noLeader], '12m': [] },
    ));

  it('EchoperatorNoLeader: nothing is scraped', () =>
    expectAlerts(
      { [`leader_election_master_status{${target},${lease}}`]: '1x5 stale _x10 1x10' },
      { '5m': [], '9m': [noLeader], '20m': [] },
    ));

  it('EchoperatorNoLeader: not when the leader changes', () =>
    expectAlerts(
      {
        [`leader_election_master_status{${target},${lease}}`]: '1x5 stale',
        [`leader_election_master_status{${other},${lease}}`]: '0x6 1x10',
      },
      { '6m': [], '7m': [], '8m': [] },
    ));

  it('EchoperatorLeadershipFlapping: six changes in a quarter of an hour, even if replicas are gone', () =>
    expectAlerts(
      {
        ...calm,
        [`leader_election_lease_transitions{${target},${lease}}`]: '3x9 4 5 6 stale',
        [`leader_election_lease_transitions{${other},${lease}}`]: '_x12 7 8 9x40',
      },
      { '13m': [], '15m': [warning('EchoperatorLeadershipFlapping')], '26m': [], '40m': [] },
    ));

  it('EchoperatorLeadershipFlapping: not if the Lease is deleted and its count begins again', () =>
    expectAlerts(
      { ...calm, [`leader_election_lease_transitions{${target},${lease}}`]: '37x9 0x10 1x30' },
      { '10m': [], '16m': [], '21m': [], '30m': [] },
    ));

  it('EchoperatorLeadershipFlapping: six changes, although the Lease is deleted meanwhile', () =>
    expectAlerts(
      { ...calm, [`leader_election_lease_transitions{${target},${lease}}`]: '37x9 38 39 40 0 1 2 3x30' },
      { '15m': [], '16m': [warning('EchoperatorLeadershipFlapping')], '40m': [] },
    ));

  it('EchoperatorLeadershipFlapping: not for an upgrade of three replicas and its rollback', () =>
    expectAlerts(
      { ...calm, [`leader_election_lease_transitions{${target},${lease}}`]: '3x9 6x5 8x20' },
      { '10m': [], '16m': [], '30m': [] },
    ));

  it('EchoperatorReconcilesFailing: more than half of a controller fails', () =>
    expectAlerts(
      {
        ...calm,
        [`controller_runtime_reconcile_total{${target},controller="echo",result="success"}`]: '0+10x60',
        [`controller_runtime_reconcile_total{${target},controller="echo",result="error"}`]: '0x10 0+20x20 400x40',
        [`controller_runtime_reconcile_errors_total{${target},controller="echo"}`]: '0x10 0+20x20 400x40',
        [`controller_runtime_reconcile_total{${target},controller="pet",result="success"}`]: '0+10x60',
        [`controller_runtime_reconcile_errors_total{${target},controller="pet"}`]: '0+1x60',
      },
      {
        '10m': [],
        '20m': [],
        '32m': [warning('EchoperatorReconcilesFailing', { controller: 'echo' })],
        '45m': [],
      },
    ));

  it('EchoperatorKeysStuck: a reconcile does not end', () =>
    expectAlerts(
      {
        ...calm,
        [`controller_stuck_reconciles{${target},controller="pet"}`]: '0x5 2x10 0x20',
      },
      { '5m': [], '8m': [], '12m': [warning('EchoperatorKeysStuck', { controller: 'pet' })], '20m': [] },
    ));

  it('EchoperatorCacheStale: lists and watches fail', () =>
    expectAlerts(
      {
        ...calm,
        [`informer_last_event_age_seconds{${target},resource="jobs.batch"}`]: '30x5 30+60x10 10x30',
        [`reflector_errors_total{${target},resource="jobs.batch",verb="list"}`]: '0x5 0+2x10 20x30',
        [`reflector_errors_total{${target},resource="jobs.batch",verb="watch"}`]: '1x60',
      },
      { '5m': [], '8m': [], '14m': [warning('EchoperatorCacheStale', { resource: 'jobs.batch' })], '20m': [] },
    ));

  it('EchoperatorCacheStale: a watch is silent for twenty minutes, but not for ten', () =>
    expectAlerts(
      {
        ...calm,
        [`informer_last_event_age_seconds{${target},resource="pets.mmontes.io"}`]: '0+60x30 10x30',
        [`reflector_errors_total{${target},resource="pets.mmontes.io",verb="list"}`]: '3x60',
      },
      { '10m': [], '20m': [], '25m': [warning('EchoperatorCacheStale', { resource: 'pets.mmontes.io' })], '33m': [] },
    ));

  it('EchoperatorExternalSystemDown: the leader cannot use the database, whatever a standby says', () =>
    expectAlerts(
      {
        ...calm,
        [`echoperator_external_system_up{${target},system="postgres"}`]: '1x5 0x10 1x20',
        [`echoperator_external_system_up{${other},system="postgres"}`]: '1x40',
        [`echoperator_external_system_up{${target},system="petstore"}`]: '1x40',
      },
      { '5m': [], '8m': [], '12m': [warning('EchoperatorExternalSystemDown', { system: 'postgres' })], '18m': [] },
    ));
});
