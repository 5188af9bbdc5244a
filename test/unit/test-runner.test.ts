import { describe, expect, test } from '@jest/globals';
import {
  hasFailed,
  type JestResults,
  judgeCheck,
  judgeJest,
  lastLine,
  type Outcome,
  type SuiteOutcome,
  sum,
  table,
} from '../run/outcome.ts';
import { stagesOf, suites, withBinaries } from '../run/suites.ts';

const clean: JestResults = {
  success: true,
  numPassedTests: 3,
  numFailedTests: 0,
  numPendingTests: 0,
  numTodoTests: 0,
  numRuntimeErrorTestSuites: 0,
  wasInterrupted: false,
};

const ran = (suite: string, outcome: Outcome, durationMs = 1000): SuiteOutcome => ({ ...outcome, suite, durationMs });

describe('the result of a jest suite', () => {
  test('is passed when tests ran and none failed', () => {
    expect(judgeJest(clean, undefined)).toEqual({ result: 'passed', counts: { passed: 3, failed: 0, skipped: 0 } });
  });

  test.each<[string, JestResults | undefined, string | undefined, string]>([
    ['no test was executed', { ...clean, numPassedTests: 0, numPendingTests: 4 }, undefined, 'no test was executed'],
    ['a test failed', { ...clean, success: false, numFailedTests: 2 }, 'exit code 1', '2 failed'],
    ['a file did not load', { ...clean, numRuntimeErrorTestSuites: 1 }, 'exit code 1', '1 files did not load'],
    ['jest was interrupted', { ...clean, wasInterrupted: true }, undefined, 'interrupted'],
    ['jest died first', undefined, 'ended by SIGKILL', 'jest wrote no results: ended by SIGKILL'],
    ['its teardown failed after green tests', clean, 'exit code 1', 'jest: exit code 1'],
  ])('is failed when %s', (_when, results, exit, why) => {
    expect(judgeJest(results, exit)).toMatchObject({ result: 'failed', why });
  });
});

describe('a whole run', () => {
  const unit = ran('unit', judgeJest({ ...clean, numPendingTests: 1 }, undefined));
  const leftOut = ran('e2e', { result: 'left out', why: 'no root' });

  test('adds up the tests of all suites', () => {
    expect(lastLine(sum([ran('lint', judgeCheck(undefined)), unit, unit]))).toBe('6 passed, 0 failed, 2 skipped');
    expect(lastLine(sum([ran('unit', judgeJest(clean, undefined))]))).toBe('3 passed, 0 failed');
  });

  test('never says 0 failed when a suite failed without a failed test', () => {
    const outcomes = [ran('lint', judgeCheck('exit code 1')), unit, ran('chart', judgeJest(undefined, 'exit code 1'))];
    expect(hasFailed(outcomes)).toBe(true);
    expect(lastLine(sum(outcomes))).toBe('3 passed, 2 failed, 1 skipped');
  });

  test('does not fail for a suite that was left out, and its table says why', () => {
    expect(hasFailed([unit, leftOut])).toBe(false);
    expect(table([unit, leftOut]).split('\n')).toEqual([
      'suite  result    tests   time',
      'unit   passed        3  1.0 s',
      'e2e    left out         1.0 s  no root',
    ]);
  });
});

describe("the cluster's programs", () => {
  const named = (...names: readonly string[]) => suites.filter((suite) => names.includes(suite.name));
  const root = { platform: 'linux', root: true } as const;

  test('are built before the first suite that runs them, and only those that are run', () => {
    const chosen = withBinaries(named('unit', 'chart', 'integration'), root);
    expect(chosen.map(({ name }) => name)).toEqual(['unit', 'binaries', 'chart', 'integration']);
    const control = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl'];
    expect(chosen[1]?.command.slice(2)).toEqual([...control, 'election-candidate', 'helm', 'helm4']);
  });

  test('are not built for nobody', () => {
    expect(withBinaries(named('lint', 'unit'), root)).toEqual(named('lint', 'unit'));
    expect(withBinaries(named('e2e'), { platform: 'darwin', root: false })).toEqual(named('e2e'));
  });

  test("are all of them for e2e, with what the control plane's suites wait for first", () => {
    const [binaries] = withBinaries(named('e2e'), root);
    expect(binaries?.command).toEqual(expect.arrayContaining(['kubelet', 'containerd', 'coredns', 'kubectl']));
    expect(binaries?.command.slice(2, 4)).toEqual(['etcd', 'kube-apiserver']);
  });
});

describe('what runs beside one another', () => {
  const namesOf = (...names: readonly string[]) => {
    const chosen = withBinaries(
      suites.filter(({ name }) => names.length === 0 || names.includes(name)),
      { platform: 'linux', root: true },
    );
    return stagesOf(chosen).map((lanes) => lanes.map((lane) => lane.map(({ name }) => name)));
  };

  test('is what waits for pods and what does not, once the programs are there', () => {
    expect(namesOf()).toEqual([
      [['lint', 'types', 'generated', 'unit', 'binaries']],
      [
        ['chart', 'integration', 'package'],
        ['kinds', 'e2e'],
      ],
    ]);
  });

  test('is nothing where there is one lane', () => {
    expect(namesOf('types', 'unit')).toEqual([[['types', 'unit']]]);
    expect(namesOf('e2e')).toEqual([[['binaries']], [['e2e']]]);
  });
});

describe.each(['kinds', 'e2e'])('%s', (name) => {
  const suite = suites.find((one) => one.name === name);

  test('must run as root on Linux', () => {
    expect(suite?.leftOut?.({ platform: 'linux', root: true })).toBeUndefined();
  });

  test.each([
    { platform: 'linux', root: false },
    { platform: 'darwin', root: true },
  ] as const)('is left out with a reason on $platform, root $root', (machine) => {
    expect(suite?.leftOut?.(machine)).toMatch(/needs root on Linux/);
  });
});

test('no other suite may be left out', () => {
  expect(suites.filter(({ leftOut }) => leftOut !== undefined).map(({ name }) => name)).toEqual(['kinds', 'e2e']);
});
