import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { execa } from 'execa';
import { stringify } from 'yaml';
import { codeBlocks, headingAnchors } from '../../testkit/markdown.ts';
import { ofOutside, ofRuntime } from '../../tools/generate/generate-operations.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';
import { Helm, helmNames } from './helm.ts';
import type { AlertRule } from './rendering.ts';

const root = join(import.meta.dirname, '../..');
const render = async (prometheusRule: object = {}, release = 'demo') =>
  (await Helm.find(helmNames[0]!)).render({
    release,
    values: { metrics: { prometheusRule: { enabled: true, ...prometheusRule } } },
  });
const { spec } = (await render()).one('PrometheusRule');
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

describe('the PrometheusRule', () => {
  it('is valid', async () => {
    const { stdout } = await execa(promtool, [
      'check',
      'rules',
      '--lint=all',
      '--lint-fatal',
      join(folder, 'rules.yaml'),
    ]);
    expect(stdout).toContain(`SUCCESS: ${rules.length} rules found`);
  });

  it('is not there unless it is asked for, nor without metrics', async () => {
    const helm = await Helm.find(helmNames[0]!);
    expect((await helm.render()).all('PrometheusRule')).toEqual([]);
    const values = { monitoring: { enabled: false }, metrics: { prometheusRule: { enabled: true } } };
    expect((await helm.render({ values })).all('PrometheusRule')).toEqual([]);
  });

  it('takes its namespace, its labels and those of the alerts from values', async () => {
    const rendered = await render({
      namespace: 'monitoring',
      labels: { team: 'a' },
      alertLabels: { channel: 'b', severity: 'page' },
      runbooks: 'https://runbooks.example/x',
    });
    const rule = rendered.one('PrometheusRule');
    expect(rule.metadata).toMatchObject({
      name: 'demo-echoperator.operators',
      namespace: 'monitoring',
      labels: { team: 'a' },
    });
    expect(rule.metadata.labels).not.toHaveProperty('release');
    const [first] = rule.spec.groups[0]!.rules;
    expect(first?.labels).toEqual({ channel: 'b', severity: 'critical' });
    expect(first?.annotations.runbook_url).toBe('https://runbooks.example/x#echoperatornoleader');
  });

  it.each([
    ['demo', 'demo-echoperator-.+'],
    ['a'.repeat(52), `${'a'.repeat(40)}.+`],
  ])('selects the pods of release %s, whose names Kubernetes may truncate', async (release, pods) => {
    const rule = (await render({}, release)).one('PrometheusRule').spec.groups[0]!.rules.at(-1);
    expect(rule?.expr).toContain(`{namespace="operators",pod=~"${pods}"}`);
  });
});

it('every metric of the alerts exists', () => {
  const known = [ofRuntime(), ofOutside()].flatMap((registry) => registry.getMetricsAsArray().map(({ name }) => name));
  const named = rules.flatMap(({ expr }) => [...expr.matchAll(/(\w+)\{/g)].map(([, name = '']) => name));
  expect(named.length).toBeGreaterThanOrEqual(rules.length);
  expect(named.filter((name) => !known.includes(name))).toEqual([]);
});

it.each(rules)('$alert has a summary, a description, and a runbook with a command', async (rule: AlertRule) => {
  const { summary, description, runbook_url = '' } = rule.annotations;
  expect(summary).not.toMatch(/\.$/);
  expect(description).toMatch(/\.$/);
  const [url, anchor = ''] = runbook_url.split('#');
  expect(url).toBe('https://github.com/echoperator/echoperator/blob/main/docs/alerts.md');
  const page = await readFile(join(root, 'docs/alerts.md'), 'utf8');
  expect(headingAnchors(page)).toContain(anchor);
  const section = page.split(/^## /m).find((text) => text.startsWith(`${rule.alert}\n`)) ?? '';
  expect(section).toContain(`severity ${rule.labels.severity}`);
  expect(codeBlocks(section).length).toBeGreaterThan(0);
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

  it('EchoperatorOutsideDown: the leader cannot use the database, whatever a standby says', () =>
    expectAlerts(
      {
        ...calm,
        [`echoperator_outside_up{${target},system="postgres"}`]: '1x5 0x10 1x20',
        [`echoperator_outside_up{${other},system="postgres"}`]: '1x40',
        [`echoperator_outside_up{${target},system="petstore"}`]: '1x40',
      },
      { '5m': [], '8m': [], '12m': [warning('EchoperatorOutsideDown', { system: 'postgres' })], '18m': [] },
    ));
});
