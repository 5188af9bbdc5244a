/** What one suite did, and what a whole run amounts to. Pure: test/run.ts does the running. */

export type Counts = { readonly passed: number; readonly failed: number; readonly skipped: number };

export type Outcome =
  | { readonly result: 'passed'; readonly counts?: Counts }
  | { readonly result: 'failed'; readonly why: string; readonly counts?: Counts }
  | { readonly result: 'left out'; readonly why: string };

export type SuiteOutcome = Outcome & { readonly suite: string; readonly durationMs: number };

/** The part of `jest --json` that is judged here. */
export type JestResults = {
  readonly success: boolean;
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly numRuntimeErrorTestSuites: number;
  readonly wasInterrupted: boolean;
};

/** A linter, a compiler, a generator: its exit code is all it says. */
export function judgeCheck(exit: string | undefined): Outcome {
  return exit === undefined ? { result: 'passed' } : { result: 'failed', why: exit };
}

/**
 * Jest's own verdict is not enough: a suite in which no test was executed proves nothing, so it has failed.
 * @param results undefined where jest died before it could write them
 * @param exit how jest ended, if not with code 0
 */
export function judgeJest(results: JestResults | undefined, exit: string | undefined): Outcome {
  if (results === undefined) return { result: 'failed', why: `jest wrote no results: ${exit ?? 'exit code 0'}` };
  const counts: Counts = {
    passed: results.numPassedTests,
    failed: results.numFailedTests,
    skipped: results.numPendingTests + results.numTodoTests,
  };
  const failed = (why: string): Outcome => ({ result: 'failed', why, counts });
  if (results.wasInterrupted) return failed('interrupted');
  if (results.numRuntimeErrorTestSuites > 0) return failed(`${results.numRuntimeErrorTestSuites} files did not load`);
  if (counts.failed > 0) return failed(`${counts.failed} failed`);
  if (counts.passed === 0) return failed('no test was executed');
  if (exit !== undefined || !results.success) return failed(`jest: ${exit ?? 'no success'}`);
  return { result: 'passed', counts };
}

/** A run has failed when one suite has; a suite left out for a good reason has not. */
export function hasFailed(outcomes: readonly SuiteOutcome[]): boolean {
  return outcomes.some((outcome) => outcome.result === 'failed');
}

/**
 * The sums of all suites. A suite that failed without a failed test (the linter, a file that did not load, no test
 * executed) counts as one failure, so that the sums never look better than the run was.
 */
export function sum(outcomes: readonly SuiteOutcome[]): Counts {
  let passed = 0;
  let failed = 0;
  let skipped = 0;
  for (const outcome of outcomes) {
    const counts = outcome.result === 'left out' ? undefined : outcome.counts;
    passed += counts?.passed ?? 0;
    skipped += counts?.skipped ?? 0;
    failed += Math.max(counts?.failed ?? 0, outcome.result === 'failed' ? 1 : 0);
  }
  return { passed, failed, skipped };
}

/** The last line of a run, alone and plain, for whoever reads only that. */
export function lastLine({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}

/** One row a suite: its name, its result, its tests, its time, and why where there is a why. */
export function table(outcomes: readonly SuiteOutcome[]): string {
  const rows = outcomes.map((outcome) => {
    const counts = outcome.result === 'left out' ? undefined : outcome.counts;
    return [
      outcome.suite,
      outcome.result,
      counts === undefined ? '' : `${counts.passed + counts.failed}`,
      `${(outcome.durationMs / 1000).toFixed(1)} s`,
      'why' in outcome ? outcome.why : '',
    ] as const;
  });
  const header = ['suite', 'result', 'tests', 'time', ''] as const;
  const all = [header, ...rows];
  const width = (column: 0 | 1 | 2 | 3): number => Math.max(...all.map((row) => row[column].length));
  const line = (row: (typeof all)[number]): string =>
    [row[0].padEnd(width(0)), row[1].padEnd(width(1)), row[2].padStart(width(2)), row[3].padStart(width(3)), row[4]]
      .join('  ')
      .trimEnd();
  return all.map(line).join('\n');
}
