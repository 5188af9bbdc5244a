/**
 * Explores scenarios with the source that this file is in, which is a copy with a bug.
 *
 *     node test/seeded-bugs/run-explore.ts REQUEST    REQUEST: an ExploreRequest as JSON
 *
 * Prints an ExploreResult as JSON. Any exit code but 0 says that the scenarios could not be run.
 */
import { ExplorationError, explore } from '@echoperator/testing/simulation';
import { simulatedScenario } from '../integration/environment/simulated-scenarios.ts';

/** What to explore. */
export interface ExploreRequest {
  /** The names of scenarios. */
  readonly scenarios: readonly string[];
  /** How many schedules of each. */
  readonly runs: number;
  readonly seed: number;
}

export interface ExploreResult {
  readonly schedules: number;
  /** What the first schedule that failed has reported; undefined: none failed. */
  readonly failure: string | undefined;
  /** Whether a schedule failed, and not a run that nothing disturbed. */
  readonly isDisturbed: boolean;
  /** The processor time of the process, in seconds. */
  readonly cpuSeconds: number;
}

/** The scenarios take turns with so many schedules: the first ones may not show a bug at all. */
const schedulesPerTurn = 100;

async function run({ scenarios, runs, seed }: ExploreRequest): Promise<Omit<ExploreResult, 'cpuSeconds'>> {
  let schedules = 0;
  for (let begun = 0; begun < runs; begun += schedulesPerTurn) {
    for (const name of scenarios) {
      const turn = { runs: Math.min(schedulesPerTurn, runs - begun), seed: seed + begun, shortens: false };
      try {
        const report = await explore({ ...simulatedScenario(name), ...turn });
        schedules += report.runs;
      } catch (error) {
        if (!(error instanceof Error)) throw error;
        return { schedules, failure: `${name}: ${error.message}`, isDisturbed: error instanceof ExplorationError };
      }
    }
  }
  return { schedules, failure: undefined, isDisturbed: false };
}

const result = await run(JSON.parse(process.argv[2] ?? ''));
const { user, system } = process.cpuUsage();
console.log(JSON.stringify({ ...result, cpuSeconds: (user + system) / 1e6 } satisfies ExploreResult));
