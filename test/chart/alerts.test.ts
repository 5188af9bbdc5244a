import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { codeBlocks, headingAnchors } from '../../testkit/markdown.ts';
import { ofExternal, ofRuntime } from '../../tools/generate/generate-operations.ts';
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

describe('the PrometheusRule', () => {
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
  const known = [ofRuntime(), ofExternal()].flatMap((registry) => registry.getMetricsAsArray().map(({ name }) => name));
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
