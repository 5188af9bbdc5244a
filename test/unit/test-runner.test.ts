import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import type { TestSequencerOptions } from '@jest/test-sequencer';
import FileOrder from '../run/file-order.ts';
import {
  failures,
  hasFailed,
  type JestFile,
  type JestResults,
  judgeCheck,
  judgeJest,
  lastLines,
  type Outcome,
  reportsHang,
  reportsOpenHandles,
  type SuiteOutcome,
  slowest,
  table,
} from '../run/outcome.ts';
import { nightlySuites, pushSuites, quickSuites, stagesOf, withBinaries } from '../run/suites.ts';

const clean: JestResults = {
  success: true,
  numPassedTests: 3,
  numFailedTests: 0,
  numPendingTests: 0,
  numTodoTests: 0,
  numRuntimeErrorTestSuites: 0,
  wasInterrupted: false,
  testResults: [],
};

const well = { why: undefined };

const ran = (suite: string, outcome: Outcome, durationMs = 1000): SuiteOutcome => ({ ...outcome, suite, durationMs });

describe('the result of a jest suite', () => {
  test('is passed if tests ran and none failed', () => {
    expect(judgeJest(clean, well)).toEqual({ result: 'passed', counts: { passed: 3, failed: 0, skipped: 0 } });
  });

  test.each<[string, JestResults | undefined, string | undefined, string]>([
    ['no test was executed', { ...clean, numPassedTests: 0, numPendingTests: 4 }, undefined, 'no test was executed'],
    ['a test failed', { ...clean, success: false, numFailedTests: 2 }, 'exit code 1', '2 failed'],
    [
      'a file did not load',
      { ...clean, numRuntimeErrorTestSuites: 1 },
      'exit code 1',
      '1 files did not load or left handles open',
    ],
    ['jest was interrupted', { ...clean, wasInterrupted: true }, undefined, 'interrupted'],
    ['jest died first', undefined, 'ended by SIGKILL', 'jest wrote no results: ended by SIGKILL'],
    ['its teardown failed after green tests', clean, 'exit code 1', 'jest: exit code 1'],
  ])('is failed when %s', (_when, results, exit, why) => {
    expect(judgeJest(results, { why: exit })).toMatchObject({ result: 'failed', why });
  });

  test.each([
    ['Jest did not exit one second after the test run has completed.', true],
    ['A worker process has failed to exit gracefully and has been force exited.', false],
  ])('is failed when jest says: %s', (line, isForEver) => {
    expect(reportsOpenHandles(line)).toBe(true);
    expect(reportsHang(line)).toBe(isForEver);
    expect(judgeJest(clean, { why: undefined, leftHandlesOpen: true })).toMatchObject({
      result: 'failed',
      why: 'open handles: jest or one of its workers could not exit',
    });
  });

  test('is passed without tests only if the suite may be empty', () => {
    const empty = { ...clean, numPassedTests: 0 };
    expect(judgeJest(empty, well, { mayBeEmpty: true })).toMatchObject({ result: 'passed' });
    expect(quickSuites('main').filter(({ mayBeEmpty }) => mayBeEmpty)).toHaveLength(1);
    expect([...pushSuites, ...nightlySuites].filter(({ mayBeEmpty }) => mayBeEmpty)).toEqual([]);
  });
});

describe('a whole run', () => {
  const unit = ran('unit', judgeJest({ ...clean, numPendingTests: 1 }, well));
  const leftOut = ran('e2e', { result: 'left out', why: 'no root' });

  test('sums the tests of all suites', () => {
    expect(lastLines([ran('lint', judgeCheck(well)), unit, unit])).toEqual(['6 passed, 0 failed, 2 skipped']);
    expect(lastLines([ran('unit', judgeJest(clean, well))])).toEqual(['3 passed, 0 failed']);
  });

  test('counts a suite that failed without a failed test', () => {
    const exit = { why: 'exit code 1' };
    const outcomes = [ran('lint', judgeCheck(exit)), unit, ran('chart', judgeJest(undefined, exit))];
    expect(hasFailed(outcomes)).toBe(true);
    expect(lastLines(outcomes)).toEqual(['3 passed, 2 failed, 1 skipped']);
  });

  test('names in its last line the suites that were left out, and the reasons', () => {
    expect(lastLines([unit, leftOut]).at(-1)).toBe('INCOMPLETE, left out: e2e (no root)');
  });

  test('fails for a suite that was left out only if the run must be complete', () => {
    expect(hasFailed([unit, leftOut])).toBe(false);
    expect(hasFailed([leftOut], { mustBeComplete: true })).toBe(true);
    expect(table([unit, leftOut]).split('\n')).toEqual([
      'suite  result    tests   time',
      'unit   passed        3  1.0 s',
      'e2e    left out         1.0 s  no root',
    ]);
  });

  test('fails for a skipped test only if the run must be complete', () => {
    expect(hasFailed([unit])).toBe(false);
    expect(hasFailed([unit], { mustBeComplete: true })).toBe(true);
    expect(hasFailed([ran('unit', judgeJest(clean, well))], { mustBeComplete: true })).toBe(false);
  });

  test('shows the time of each file, longest first, and the slowest tests', () => {
    const file = (name: string, durationsMs: readonly number[]): JestFile => ({
      name: `/repository/test/${name}`,
      startTime: 5000,
      endTime: 5000 + durationsMs.reduce((sum, durationMs) => sum + durationMs, 0),
      assertionResults: durationsMs.map((duration, index) => ({ fullName: `${name} ${index}`, duration })),
    });
    const files = [file('a', [600, 700]), file('b', [2000]), file('c', [20])];
    expect(slowest(files, '/repository', 2).split('\n')).toEqual([
      'Time per file',
      '   2.0 s  test/b',
      '   1.3 s  test/a',
      '          and 1 files that take less than a second each',
      '',
      'The 2 slowest tests',
      '   2.0 s  test/b: b 0',
      '   0.7 s  test/a: a 1',
    ]);
  });

  test('names each failed test with an excerpt of its message, and each file that did not load', () => {
    const at = { startTime: 0, endTime: 0 };
    const message =
      '\u001b[31mError: not within 90000 ms:\u001b[39m the Job\n    at eventually (src/eventually.ts:28:13)';
    const files: readonly JestFile[] = [
      { ...at, name: '/repository/test/a', assertionResults: [{ fullName: 'it works', failureMessages: [] }] },
      { ...at, name: '/repository/test/b', assertionResults: [{ fullName: 'it waits', failureMessages: [message] }] },
      { ...at, name: '/repository/test/c', message: 'SyntaxError: x\n\n    at y', assertionResults: [] },
    ];
    expect(failures(files, '/repository')).toEqual([
      'test/b: it waits\n    Error: not within 90000 ms: the Job',
      'test/c\n    SyntaxError: x',
    ]);
  });

  test('shows the beginning and the end of a long message', () => {
    const message = `Property failed: ${'[1,2]'.repeat(200)} Got AssertionError: 1 is not 2\n    at x`;
    const failed = { fullName: 'it holds', failureMessages: [message] };
    const files = [{ startTime: 0, endTime: 0, name: '/repository/test/a', assertionResults: [failed] }];
    expect(failures(files, '/repository')).toEqual([
      expect.stringMatching(/^test\/a: it holds\n {4}Property failed: \[.{600,700} Got AssertionError: 1 is not 2$/),
    ]);
  });
});

describe('the order of the files', () => {
  const contextIn = (rootDir: string) => ({ config: { rootDir } });
  const ordered = (seed: number, rootDir = '/one'): readonly string[] => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
    const tests = names.map((name) => ({ path: `${rootDir}/test/${name}`, context: contextIn(rootDir) }));
    const order = new FileOrder({ contexts: [], globalConfig: { seed } as TestSequencerOptions['globalConfig'] });
    return order.sort(tests).map(({ path }) => path.slice(rootDir.length));
  };

  test('depends on the seed and not on the checkout', () => {
    expect(ordered(1)).toEqual(ordered(1, '/another'));
    expect([...ordered(1)].sort()).toEqual([...ordered(2)].sort());
    expect(ordered(1)).not.toEqual(ordered(2));
  });
});

describe("the cluster's programs", () => {
  const named = (...names: readonly string[]) => pushSuites.filter((suite) => names.includes(suite.name));
  const root = { platform: 'linux', root: true } as const;

  test('are built before the first suite that needs them, and only if a suite needs them', () => {
    const chosen = withBinaries(named('unit', 'chart', 'integration'), root);
    expect(chosen.map(({ name }) => name)).toEqual(['unit', 'binaries', 'chart', 'integration']);
    const control = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kwok', 'kubectl'];
    expect(chosen[1]?.command.slice(2)).toEqual([...control, 'election-candidate', 'helm', 'helm4']);
  });

  test('are not built if no suite needs them', () => {
    expect(withBinaries(named('lint', 'unit'), root)).toEqual(named('lint', 'unit'));
    expect(withBinaries(named('e2e'), { platform: 'darwin', root: false })).toEqual(named('e2e'));
  });

  test("are all built for e2e, and first those of the control plane's suites", () => {
    const [binaries] = withBinaries(named('e2e'), root);
    expect(binaries?.command).toEqual(expect.arrayContaining(['kubelet', 'containerd', 'coredns', 'kubectl']));
    expect(binaries?.command.slice(2, 4)).toEqual(['etcd', 'kube-apiserver']);
  });
});

describe('the stages', () => {
  const namesOf = (names: readonly string[] = pushSuites.map(({ name }) => name), processors = 2) => {
    const chosen = withBinaries(
      pushSuites.filter(({ name }) => names.includes(name)),
      { platform: 'linux', root: true },
    );
    return stagesOf(chosen, processors).map((lanes) => lanes.map((lane) => lane.map(({ name }) => name)));
  };

  test('run the checks next to the unit tests, and integration next to the suites that need a cluster or Helm', () => {
    expect(namesOf()).toEqual([
      [['lint', 'types'], ['unit']],
      [['binaries']],
      [['integration'], ['generated', 'chart', 'package', 'kinds', 'e2e']],
    ]);
  });

  test('run the suites that need a cluster next to the others on a machine with four processors', () => {
    expect(namesOf(undefined, 4).at(-1)).toEqual([
      ['integration'],
      ['generated', 'chart', 'package'],
      ['kinds', 'e2e'],
    ]);
  });

  test('run one suite after the other if there is one lane', () => {
    expect(namesOf(['lint', 'types'])).toEqual([[['lint', 'types']]]);
    expect(namesOf(['types', 'unit'])).toEqual([[['types'], ['unit']]]);
    expect(namesOf(['e2e'])).toEqual([[['binaries']], [['e2e']]]);
  });
});

describe.each(['kinds', 'e2e'])('%s', (name) => {
  const suite = pushSuites.find((one) => one.name === name);

  test('is not left out for root on Linux', () => {
    expect(suite?.leftOut?.({ platform: 'linux', root: true })).toBeUndefined();
  });

  test.each([
    { platform: 'linux', root: false },
    { platform: 'darwin', root: true },
  ] as const)('is left out with a reason on $platform, root $root', (machine) => {
    expect(suite?.leftOut?.(machine)).toMatch(/requires root on Linux/);
  });
});

test('no other suite is ever left out', () => {
  expect(pushSuites.filter(({ leftOut }) => leftOut !== undefined).map(({ name }) => name)).toEqual(['kinds', 'e2e']);
});

describe('the nightly suites', () => {
  const files = readdirSync(join(import.meta.dirname, '..'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.nightly.test.ts'))
    .map((file) => `test/${file}`);

  test.each(files)('run %s exactly once', (file) => {
    const project = `${file.split('/')[1]}-nightly`;
    const running = nightlySuites.filter(({ command }) => {
      const patterns = command.filter((_, index) => command[index - 1] === '--testPathPatterns');
      const isMatched = patterns.length === 0 || patterns.some((pattern) => new RegExp(pattern).test(file));
      return command.includes(project) && isMatched;
    });
    expect(running.map(({ name }) => name)).toHaveLength(1);
  });

  test('have unique names that differ from those of the other suites', () => {
    const names = [...pushSuites, ...nightlySuites].map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });
});
