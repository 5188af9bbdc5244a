/** The outcome of a suite and of a whole run. Pure functions; test/run.ts runs the suites. */
import { stripVTControlCharacters } from 'node:util';

type Counts = { readonly passed: number; readonly failed: number; readonly skipped: number };

export type Outcome =
  | { readonly result: 'passed'; readonly counts?: Counts }
  | { readonly result: 'failed'; readonly why: string; readonly counts?: Counts }
  | { readonly result: 'left out'; readonly why: string };

export type SuiteOutcome = Outcome & { readonly suite: string; readonly durationMs: number };

/** The fields of `jest --json` that are used here. */
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
  /** Why the file failed; with its `assertionResults` empty, why it did not load. */
  readonly message?: string;
  readonly assertionResults: readonly {
    readonly fullName: string;
    readonly duration?: number | null;
    readonly failureMessages?: readonly string[] | null;
  }[];
};

/** How a command ended. */
export type Exit = {
  /** Undefined for exit code 0. */
  readonly why: string | undefined;
  /** Whether jest reported that it or a worker could not exit. */
  readonly leftHandlesOpen?: boolean;
};

/** Jest's message when open handles keep it running forever. Its results are already written. */
const mainProcessHangs = 'Jest did not exit one second after the test run has completed';

/** Jest's message when a worker has not exited within `workerGracefulExitTimeout`. */
const workerHangs = 'A worker process has failed to exit gracefully';

/** Tells whether this line of jest's output reports that jest or a worker cannot exit. */
export const reportsOpenHandles = (line: string): boolean => line.includes(workerHangs) || reportsHang(line);

/** Tells whether this line of jest's output reports that jest itself will not exit. */
export const reportsHang = (line: string): boolean => line.includes(mainProcessHangs);

/** Judges a linter, compiler or generator by its exit code. */
export function judgeCheck({ why }: Exit): Outcome {
  return why === undefined ? { result: 'passed' } : { result: 'failed', why };
}

/**
 * Judges a jest suite more strictly than jest does: a suite also fails if it executed no test, or if it left handles
 * open.
 *
 * @param results undefined if jest died before it wrote them
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
  if (leftHandlesOpen) return failed('open handles: jest or one of its workers could not exit');
  if (why !== undefined || !results.success) return failed(`jest: ${why ?? 'reported no success'}`);
  return { result: 'passed', counts };
}

/**
 * Tells whether a run failed, which it does if a suite failed.
 *
 * @param options.mustBeComplete whether a suite that was left out or a skipped test also fails the run
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
 * Sums the tests of all suites. A suite that failed without a failed test (the linter, a file that did not load, no
 * test executed) counts as one failure, so that the sum never shows 0 failures for a failed run.
 */
function sum(outcomes: readonly SuiteOutcome[]): Counts {
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

/** Returns the last lines of a run: its sums, and a line with the suites that were left out, if any. */
export function lastLines(outcomes: readonly SuiteOutcome[]): readonly string[] {
  const { passed, failed, skipped } = sum(outcomes);
  const sums = `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
  const leftOut = outcomes.flatMap((outcome) => (outcome.result === 'left out' ? [outcome] : []));
  if (leftOut.length === 0) return [sums];
  const names = leftOut.map(({ suite, why }) => `${suite} (${why})`);
  return [sums, `INCOMPLETE, left out: ${names.join(', ')}`];
}

/** Formats a table with a row per suite: name, result, number of tests, time and reason. */
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

/**
 * Lists the failed tests, each with an excerpt of its message, and the files that did not load. The last lines of a
 * run are often all that a log of CI shows.
 */
export function failures(files: readonly JestFile[], root: string): readonly string[] {
  return files.flatMap((file) => {
    const path = pathIn(root, file);
    const failed = file.assertionResults.flatMap(({ fullName, failureMessages }) =>
      failureMessages?.length ? [`${path}: ${fullName}\n    ${excerpt(failureMessages[0] ?? '')}`] : [],
    );
    const didNotLoad = file.assertionResults.length === 0 && file.message;
    return didNotLoad ? [`${path}\n    ${excerpt(file.message ?? '')}`] : failed;
  });
}

/**
 * A message without its stack, as one line without colours. A long one is shown by its ends: a failed property begins
 * with its counterexample and ends with what went wrong.
 */
function excerpt(message: string): string {
  const [text = ''] = stripVTControlCharacters(message).split(/\n\s+at /, 1);
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length <= 700 ? line : `${line.slice(0, 300)} … ${line.slice(-400)}`;
}

const pathIn = (root: string, { name }: JestFile): string =>
  name.startsWith(root) ? name.slice(root.length + 1) : name;

/** Formats the time of each test file, longest first, and the slowest tests. */
export function slowest(files: readonly JestFile[], root: string, count = 20): string {
  const byFile = files
    .map((file) => ({ name: pathIn(root, file), durationMs: file.endTime - file.startTime }))
    .sort((one, other) => other.durationMs - one.durationMs);
  const byTest = files
    .flatMap((file) =>
      file.assertionResults.map(({ fullName, duration }) => ({
        name: `${pathIn(root, file)}: ${fullName}`,
        durationMs: duration ?? 0,
      })),
    )
    .sort((one, other) => other.durationMs - one.durationMs)
    .slice(0, count);
  const rows = (heading: string, timed: readonly { readonly name: string; readonly durationMs: number }[]): string =>
    [heading, ...timed.map(({ name, durationMs }) => `${seconds(durationMs).padStart(8)}  ${name}`)].join('\n');
  const slow = byFile.filter(({ durationMs }) => durationMs >= 1000);
  const fastCount = byFile.length - slow.length;
  return [
    rows('Time per file', slow),
    ...(fastCount > 0 ? [`          and ${fastCount} files that take less than a second each`] : []),
    '',
    rows(`The ${byTest.length} slowest tests`, byTest),
  ].join('\n');
}

const seconds = (durationMs: number): string => `${(durationMs / 1000).toFixed(1)} s`;

/** Formats five columns. The third and the fourth are aligned to the right. */
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
