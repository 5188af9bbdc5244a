/**
 * Explores scenarios in simulations, for seeded-bugs.ts.
 *
 *     node test/seeded-bugs/run-schedules.ts '{"scenarios":["echo"],"runs":100}'
 *
 * Its last line is a {@link SchedulesResult}.
 */
import { kinds } from '../../src/operator.ts';
import { explore, jobController } from '../../src/runtime/testing/simulation/index.ts';
import { scenariosOn } from '../integration/environment/perturbed-scenarios.ts';
import { naiveScenario } from './naive-scenario.ts';

export interface SchedulesRequest {
  /** Names of scenarios. */
  readonly scenarios: readonly string[];
  /** How many schedules of each. */
  readonly runs: number;
}

export interface SchedulesResult {
  /** The first line of the failure; undefined: there is none. */
  readonly failure: string | undefined;
}

const { scenarios, runs }: SchedulesRequest = JSON.parse(process.argv[2] ?? '');
const all = [...scenariosOn({ endPods: async () => {} }), naiveScenario];
let failure: string | undefined;
for (const name of scenarios) {
  const scenario = all.find((each) => each.name === name);
  if (scenario === undefined) throw new RangeError(`there is no scenario ${name}`);
  const { print: _, ...steps } = scenario.steps;
  try {
    await explore({ scenario: { ...scenario, steps }, customKinds: kinds, runs, others: jobController });
  } catch (error) {
    failure = String(error instanceof Error ? error.message : error).split('\n')[0];
    break;
  }
}
console.log(JSON.stringify({ failure }));
