/** What one suite did, and what a whole run amounts to. Pure: test/run.ts does the running. */

export type Counts = { readonly passed: number; readonly failed: number; readonly skipped: number };

export type Outcome =
  | { readonly result: 'passed'; readonly counts?: Counts }
  | { readonly result: 'failed'; readonly why: string; readonly counts?: Counts }
  | { readonly result: 'left out'; readonly why: string };

export type SuiteOutcome = Outcome & { readonly suite: string; readonly durationMs: number };

/** The part of `jest --json` that is judged or shown here. */
export type JestResults = {
  readonly success: boolean;
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly numRuntimeErrorTestSuites: number;
  readonly wasInterrupted: boolean;
  readonly testResults: readonly JestFile[];
};

export type JestFile = {
  /** An absolute path. */
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly startTime: number;
  readonly endTime: number;
  readonly assertionResults: readonly { readonly fullName: string; readonly duration?: number | null }[];
};

/** How a command ended. */
export type Exit = {
  /** Undefined for exit code 0. */
  readonly why: string | undefined;
  /** Whether jest told that it or a worker could not end. */
  readonly leftHandlesOpen?: boolean;
};

/** What jest says when it waits for open handles of its own: for ever, but its results are written. */
const waits = 'Jest did not exit one second after the test run has completed';

/** What jest says of a worker that has not ended in `workerGracefulExitTimeout`, which is long enough for a busy machine. */
const forced = 'A worker process has failed to exit gracefully';

/** Whether jest says in this line of its output that it or a worker of its cannot end. */
export const tellsOfOpenHandles = (line: string): boolean => line.includes(forced) || neverEnds(line);

/** Whether it will not end by itself. */
export const neverEnds = (line: string): boolean => line.includes(waits);

/** For a linter, a compiler, a generator the exit code is the result. */
export function judgeCheck({ why }: Exit): Outcome {
  return why === undefined ? { result: 'passed' } : { result: 'failed', why };
}

/**
 * Jest's own verdict is not enough: a suite in which no test was executed proves nothing, and one that leaves handles open
 * hides what its tests have left behind. Both have failed.
 *
 * @param results undefined where jest died before it could write them
 */
export function judgeJest(
  results: JestResults | undefined,
  { why, leftHandlesOpen = false }: Exit,
  options: { readonly mayBeEmpty?: boolean } = {},
): Outcome {
  if (results === undefined) return { result: 'failed', why: `jest wrote no results: ${why ?? 'exit code 0'}` };
  const counts: Counts = {
    passed: results.numPassedTests,
    failed: results.numFailedTests,
    skipped: results.numPendingTests + results.numTodoTests,
  };
  const failed = (why: string): Outcome => ({ result: 'failed', why, counts });
  if (results.wasInterrupted) return failed('interrupted');
  if (results.numRuntimeErrorTestSuites > 0)
    return failed(`${results.numRuntimeErrorTestSuites} files did not load or left handles open`);
  if (counts.failed > 0) return failed(`${counts.failed} failed`);
  if (counts.passed === 0 && options.mayBeEmpty !== true) return failed('no test was executed');
  if (leftHandlesOpen) return failed('handles are left open: jest or one of its workers could not end');
  if (why !== undefined || !results.success) return failed(`jest: ${why ?? 'no success'}`);
  return { result: 'passed', counts };
}

/**
 * A run has failed when one suite has.
 *
 * @param options.mustBeComplete whether a suite that was left out, or a test that was skipped, fails the run too
 */
export function hasFailed(
  outcomes: readonly SuiteOutcome[],
  options: { readonly mustBeComplete?: boolean } = {},
): boolean {
  return outcomes.some(
    (outcome) => outcome.result === 'failed' || (options.mustBeComplete === true && !isComplete(outcome)),
  );
}

const isComplete = (outcome: Outcome): boolean => outcome.result !== 'left out' && (outcome.counts?.skipped ?? 0) === 0;

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

/** The sums of a run, alone and plain on a line; a second and last line names the suites that were left out. */
export function lastLines(outcomes: readonly SuiteOutcome[]): readonly string[] {
  const { passed, failed, skipped } = sum(outcomes);
  const sums = `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
  const leftOut = outcomes.flatMap((outcome) => (outcome.result === 'left out' ? [outcome] : []));
  if (leftOut.length === 0) return [sums];
  const names = leftOut.map(({ suite, why }) => `${suite} (${why})`);
  return [sums, `NOT COMPLETE, left out: ${names.join(', ')}`];
}

/** One row a suite: its name, its result, its tests, its time, and why where there is a why. */
export function table(outcomes: readonly SuiteOutcome[]): string {
  return columns([
    ['suite', 'result', 'tests', 'time', ''],
    ...outcomes.map((outcome) => {
      const counts = outcome.result === 'left out' ? undefined : outcome.counts;
      return [
        outcome.suite,
        outcome.result,
        counts === undefined ? '' : `${counts.passed + counts.failed}`,
        seconds(outcome.durationMs),
        'why' in outcome ? outcome.why : '',
      ] as const;
    }),
  ]);
}

/** The time of each test file, longest first, and of the slowest tests: what to make faster next. */
export function slowest(files: readonly JestFile[], root: string, count = 20): string {
  const path = ({ name }: JestFile): string => (name.startsWith(root) ? name.slice(root.length + 1) : name);
  const byFile = files
    .map((file) => ({ name: path(file), durationMs: file.endTime - file.startTime }))
    .sort((one, other) => other.durationMs - one.durationMs);
  const byTest = files
    .flatMap((file) =>
      file.assertionResults.map(({ fullName, duration }) => ({
        name: `${path(file)}: ${fullName}`,
        durationMs: duration ?? 0,
      })),
    )
    .sort((one, other) => other.durationMs - one.durationMs)
    .slice(0, count);
  const rows = (heading: string, timed: readonly { readonly name: string; readonly durationMs: number }[]): string =>
    [heading, ...timed.map(({ name, durationMs }) => `${seconds(durationMs).padStart(8)}  ${name}`)].join('\n');
  const notable = byFile.filter(({ durationMs }) => durationMs >= 1000);
  const brief = byFile.length - notable.length;
  return [
    rows('Time per file', notable),
    ...(brief > 0 ? [`          and ${brief} files of less than a second each`] : []),
    '',
    rows(`The ${byTest.length} slowest tests`, byTest),
  ].join('\n');
}

const seconds = (durationMs: number): string => `${(durationMs / 1000).toFixed(1)} s`;

/** Five columns, the third and the fourth aligned to the right. */
function columns(rows: readonly (readonly [string, string, string, string, string])[]): string {
  const width = (column: 0 | 1 | 2 | 3): number => Math.max(...rows.map((row) => row[column].length));
  return rows
    .map((row) =>
      [row[0].padEnd(width(0)), row[1].padEnd(width(1)), row[2].padStart(width(2)), row[3].padStart(width(3)), row[4]]
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
