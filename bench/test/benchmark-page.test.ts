import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { linksOf, tableAfter } from '../../testkit/markdown.ts';
import { benchmarkPage, besidePage } from '../benchmark-page.ts';
import type { Comparison, Standing } from '../comparison.ts';
import { readPlan } from '../plan.ts';
import { reasonList } from '../report.ts';
import type { Round } from '../results.ts';
import { readResults } from '../results.ts';
import { medianWithInterval } from '../statistics.ts';
import { openElements } from './markup.ts';
import { loadRound, resultsOf, run, turn } from './results.ts';

const figures = { echosPerSecond: 200, burstP50: 100, idleAnonymous: 25 };
const round = loadRound({
  echoperator: figures,
  'controller-runtime': { ...figures, echosPerSecond: 100, burstP50: 1000 },
  ceiling: { echosPerSecond: 250 },
});

const pageOf = (...args: Parameters<typeof resultsOf>) => benchmarkPage(resultsOf(...args));

const docs = join(import.meta.dirname, '../../docs');

test('docs/benchmark.md and its plots are what bench/page.ts makes of bench.json', async () => {
  const { markdown, plots } = benchmarkPage(await readResults(join(docs, besidePage)));
  expect(await readFile(join(docs, 'benchmark.md'), 'utf8')).toBe(markdown);
  for (const [name, plot] of plots) expect(await readFile(join(docs, besidePage, name), 'utf8')).toBe(plot);
});

test('the page shows exactly the plots that it returns', () => {
  const withWaits = { ...round, turns: { ...round.turns, echoperator: turn(figures, { waits: [1, 2, 3] }) } };
  const cost: Round = { scenario: 'event cost', objects: 1000, turns: { echoperator: turn({ eventCpu: 50 }) } };
  const { markdown, plots } = pageOf([withWaits, cost]);
  const shown = linksOf(markdown).filter((link) => link.endsWith('.svg'));
  expect(shown.sort()).toEqual([...plots.keys()].map((name) => `benchmark/${name}`).sort());
  expect([...plots.keys()]).toEqual(
    expect.arrayContaining(['burst-waits.svg', 'echos-per-second.svg', 'by-objects-event-cpu.svg']),
  );
  for (const plot of plots.values()) expect(openElements(plot)).toEqual([]);
});

test('the page shows where ours is ahead and behind, and why it is behind', () => {
  const rounds = [1, 2, 3].map((ratio) =>
    loadRound({
      echoperator: { echosPerSecond: 100 * ratio, cpuPerEcho: 3 },
      'controller-runtime': { echosPerSecond: 100, cpuPerEcho: 2 },
    }),
  );
  const { markdown } = pageOf(rounds);
  expect(tableAfter(markdown, '| ratio').map((row) => Object.values(row))).toEqual([
    ['burst: Echos/s ÷ controller-runtime', '2.00 [1.00, 3.00]', '3', '75.0 %', 'undecided'],
    ["burst: operator's CPU per Echo, ms ÷ controller-runtime", '1.50 [1.50, 1.50]', '3', '75.0 %', 'behind'],
  ]);
  expect(markdown).toContain("- burst: operator's CPU per Echo, ms ÷ controller-runtime: By a profile");
});

test('comparisons with the same reason share it, and only those that are behind have one', () => {
  const comparison = (title: string, standing: Standing, why?: string): Comparison => ({
    measure: 'start',
    peer: 'kube-rs',
    title,
    standing,
    estimate: medianWithInterval([1]),
    ...(why !== undefined && { why }),
  });
  const found = [
    comparison('a', 'behind', 'Because.'),
    comparison('b', 'ahead', 'Because.'),
    comparison('c', 'behind'),
    comparison('d', 'behind', 'Because.'),
  ];
  expect(reasonList(found)).toBe('- a; d: Because.');
  expect(reasonList(found.slice(1, 3))).toBe('');
});

test("the page shows the API server's limit and how near each operator comes", () => {
  expect(pageOf([round]).markdown).toMatch(
    /accepts\s250\sEchos\/s[\s\S]*this\srate:\sechoperator 80 %, controller-runtime 40 %\./,
  );
});

test('the page compares the ends of leaders and describes them', () => {
  const failover = (ours: number, theirs: number, scenario: 'handover' | 'crash') => {
    const figuresOf = (value: number) => (scenario === 'crash' ? { coldCrash: value } : { coldHandover: value });
    return {
      scenario,
      turns: { echoperator: turn(figuresOf(ours)), 'controller-runtime': turn(figuresOf(theirs)) },
    };
  };
  const { markdown, plots } = pageOf([failover(100, 2000, 'handover'), failover(1700, 17_000, 'crash')]);
  expect([...plots.keys()]).toEqual(['cold-crash.svg']);
  expect(markdown).toMatch(/15 s long,\srenewed\severy\s2 s/);
  const failoverSection = markdown.slice(markdown.indexOf('## Failover'));
  expect(tableAfter(failoverSection, '| median').map((row) => Object.values(row))).toEqual([
    ['cold standby: SIGTERM to first write, ms', '100 [100, 100]', '2000 [2000, 2000]', '0.05 [0.05, 0.05]'],
    ['cold standby: SIGKILL to first write, ms', '1700 [1700, 1700]', '17000 [17000, 17000]', '0.10 [0.10, 0.10]'],
  ]);
  expect(tableAfter(markdown, '| ratio').map(({ standing }) => standing)).toEqual(['ahead', 'ahead']);
});

test('the page shows first what a tenant notices of another one', () => {
  const { markdown, plots } = pageOf([
    {
      scenario: 'neighbor',
      turns: {
        echoperator: turn({ neighborP50: 100, neighborP99: 400 }),
        'controller-runtime': turn({ neighborP50: 5000, neighborP99: 40_000 }),
      },
    },
    { scenario: 'refused neighbor', turns: { echoperator: turn({ refusedPerSecond: 12, recoveryOrder: 0.987 }) } },
  ]);
  expect([...plots.keys()]).toEqual(['neighbor-p99.svg']);
  const section = markdown.slice(markdown.indexOf('## A tenant beside a busy one'));
  expect(tableAfter(section, '| median').map((row) => Object.values(row))).toEqual([
    ['beside a busy tenant: p50 wait, ms', '100 [100, 100]', '5000 [5000, 5000]', ''],
    ['beside a busy tenant: p99 wait, ms', '400 [400, 400]', '40000 [40000, 40000]', ''],
  ]);
  expect(section).toMatch(/rank correlation of age and recovery +\| 0.99 \[0.99, 0.99\]/);
  expect(markdown.indexOf('## A tenant')).toBeLessThan(markdown.indexOf('## Where it is ahead'));
});

describe('kinds outside the cluster', () => {
  const rows = {
    scenario: 'rows',
    turns: {
      echoperator: turn({
        rowsSeconds: 110,
        rowStatements: 30,
        rowsDatabaseMs: 300,
        rowsToCopy: 6,
        rowsToInserts: 0.1,
      }),
      ceiling: turn({ rowsSeconds: 100 }),
    },
  } as const;
  const pets = {
    scenario: 'pets',
    turns: { echoperator: turn({ petsPerSecond: 90 }), ceiling: turn({ petsPerSecond: 100 }) },
  } as const;

  test('are compared with the same writes, with a COPY and with INSERTs', () => {
    const { markdown } = pageOf([rows, pets]);
    const section = markdown.slice(markdown.indexOf('## Kinds with an external system'));
    expect(tableAfter(section, '| median').map((row) => Object.values(row))).toEqual([
      ['PostgresWriters: s until all have rows', '110.0 [110.0, 110.0]', '100.0 [100.0, 100.0]', '1.10 [1.10, 1.10]'],
      ['Pets/s', '90 [90, 90]', '100 [100, 100]', '0.90 [0.90, 0.90]'],
      ['PostgresWriters: statements', '30 [30, 30]', '', ''],
      ['PostgresWriters: time in the database, ms', '300 [300, 300]', '', ''],
      ['PostgresWriters: that ÷ one COPY', '6.00 [6.00, 6.00]', '', ''],
      ['PostgresWriters: that ÷ one INSERT each', '0.10 [0.10, 0.10]', '', ''],
    ]);
  });
});

test('the page has the date, the commit and the minutes of each part, and its age', () => {
  const parts = {
    burst: run({ echoperator: 'abc123' }, { minutes: 14 }),
    external: run({ echoperator: 'def456', node: '27.0.0' }, { date: '2027-02-03T00:00:00.000Z' }),
  };
  const { markdown } = pageOf([round], { parts, age: 3 });
  expect(tableAfter(markdown, '| part').map((row) => Object.values(row).slice(0, 4))).toEqual([
    ['burst', '2026-03-04', 'abc123', '14'],
    ['external', '2027-02-03', 'def456', '–'],
  ]);
  expect(markdown).toContain('3 later commits had changed src/ or packages/ since the oldest part;');
  expect(tableAfter(markdown, '| what').map((row) => Object.values(row))).toEqual([
    ['machine', '2 × Some <Processor> & more'],
    ['kubernetes', '1.2.3'],
    ['node', '26.0.0 (burst); 27.0.0 (external)'],
    ['echoperator', 'abc123 (burst); def456 (external)'],
  ]);
  expect(pageOf([round]).markdown).toContain('its age was unknown;');
});

describe('the page warns', () => {
  const warningOf = (...args: Parameters<typeof resultsOf>) => /^> .*$/m.exec(pageOf(...args).markdown)?.[0];

  test('of nothing after a complete and undisturbed run', () => {
    expect(warningOf([round])).toBeUndefined();
  });

  test('of parts with a short run', () => {
    const parts = { burst: run(), external: run() };
    expect(warningOf([round], { parts, plan: { ...readPlan({}), pets: 1 } })).toContain('say little: external.');
    expect(warningOf([round], { parts, plan: readPlan({ QUICK: '1' }) })).toContain('say little: burst, external.');
  });

  test('of disturbed turns, and names them', () => {
    const disturbed = { scenario: 'cache', turns: { 'kube-rs': turn({}, { disturbance: 0.2 }) } } as const;
    expect(warningOf([round, disturbed])).toContain('In 1 of 4 turns');
    expect(tableAfter(pageOf([round, disturbed]).markdown, '| round')).toEqual([
      { round: '1', scenario: 'cache', contender: 'kube-rs', others: '20 %' },
    ]);
  });

  test('of void rounds, with the reason', () => {
    const voidRounds = [{ scenario: 'load', turns: {}, reason: 'requests per Echo differ\nmore' } as const];
    expect(warningOf([round], { voidRounds })).toContain('1 round did not count');
    expect(pageOf([round], { voidRounds }).markdown).toContain('- load: requests per Echo differ\n');
  });
});

test('the page can be rendered for a run without peers', () => {
  const { markdown } = pageOf([loadRound({ echoperator: figures })]);
  expect(markdown).not.toMatch(/NaN|undefined|÷/);
});
