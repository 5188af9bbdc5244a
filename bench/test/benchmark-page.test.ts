import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { linksOf, tableAfter } from '../../testkit/markdown.ts';
import { benchmarkPage, besidePage } from '../benchmark-page.ts';
import { type Bar, verdicts } from '../comparison.ts';
import { readPlan } from '../plan.ts';
import { limitList } from '../report.ts';
import type { Round } from '../results.ts';
import { readResults } from '../results.ts';
import { openElements } from './markup.ts';
import { loadRound, resultsOf, turn } from './results.ts';

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

test('the page shows the bound, the measured value and the result of each bar', () => {
  const rows = tableAfter(pageOf([round]).markdown, '| target').map((row) => Object.values(row));
  expect(rows).toEqual([
    ['burst: Echos/s ÷ controller-runtime', '≥ 1.1', '2.00 [2.00, 2.00]', '1', '0.0 %', 'met', '–'],
    ['anonymous memory idle, MB', '≤ 20', '25.0 [25.0, 25.0]', '1', '0.0 %', 'missed', '–'],
  ]);
});

test('the page judges the worse end of an interval with enough rounds', () => {
  const rows = tableAfter(pageOf(Array(6).fill(round)).markdown, '| target').map((row) => Object.values(row).slice(-4));
  expect(rows).toEqual([
    ['6', '96.9 %', 'met', 'met'],
    ['6', '96.9 %', 'missed', 'missed'],
  ]);
});

test('a missed bar has its limit in a list, a met one has not', () => {
  const limit = 'V8 takes 25 MB before the first object';
  const bar: Bar = { measure: 'idleAnonymous', bound: { atMost: 20 }, limit };
  const listed = (bars: readonly Bar[]) => limitList(verdicts(resultsOf([round]), bars));
  expect(listed([bar])).toBe(`- anonymous memory idle, MB: ${limit}`);
  expect(
    listed([
      { ...bar, bound: { atMost: 30 } },
      { measure: 'burstP50', bound: { atMost: 1 } },
    ]),
  ).toBe('');
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
  const rows = tableAfter(markdown, '| target').map((row) => Object.values(row));
  expect(rows).toEqual([
    [
      'cold standby: SIGTERM to first write, ms ÷ controller-runtime',
      '≤ 0.25',
      '0.05 [0.05, 0.05]',
      '1',
      '0.0 %',
      'met',
      '–',
    ],
    [
      'cold standby: SIGKILL to first write, ms ÷ controller-runtime',
      '≤ 0.3',
      '0.10 [0.10, 0.10]',
      '1',
      '0.0 %',
      'met',
      '–',
    ],
  ]);
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
    expect(tableAfter(markdown, '| target').map((row) => Object.values(row))).toEqual([
      ['PostgresWriters: s until all have rows ÷ ceiling', '≤ 1.2', '1.10 [1.10, 1.10]', '1', '0.0 %', 'met', '–'],
    ]);
    expect(section).not.toContain('in a run of its own');
  });

  test('that were measured in another run have its date', () => {
    const outside = { date: '2027-02-03T00:00:00.000Z', versions: { echoperator: 'abc123' } };
    expect(pageOf([rows], { outside }).markdown).toContain('Measured on 2027-02-03 in a run of its own, of abc123.');
  });
});

test('the page names the measured commit and its age', () => {
  const versions = { echoperator: 'abc123' };
  expect(pageOf([round], { versions, age: 3 }).markdown).toContain(
    'commit is abc123. When this page was made, 3 later commits had changed src/ or packages/;',
  );
  expect(pageOf([round], { versions }).markdown).toContain('its age was unknown;');
});

describe('the page warns', () => {
  const warningOf = (...args: Parameters<typeof resultsOf>) => /^> .*$/m.exec(pageOf(...args).markdown)?.[0];

  test('of nothing after a complete and undisturbed run', () => {
    expect(warningOf([round])).toBeUndefined();
  });

  test('of a short run', () => {
    expect(warningOf([round], { plan: readPlan({ QUICK: '1' }) })).toContain('a short run');
  });

  test('of a short separate run of the kinds outside the cluster', () => {
    const plan = { ...readPlan({}), postgresWriters: 1 };
    const rows = { scenario: 'rows', turns: { echoperator: turn({ rowsSeconds: 1 }) } } as const;
    expect(warningOf([round, rows], { plan })).toContain('had a short run');
    expect(warningOf([round], { plan })).toBeUndefined();
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
