import { Pod } from '@echoperator/runtime/kinds';
import type { Scenario } from '@echoperator/testing';
import { type ExploreOptions, jobController } from '@echoperator/testing/simulation';
import { Echo } from '../../../src/kinds/echo/kind.ts';
import { scenariosOn, simulatedOnly } from '../../plans/index.ts';
import { naiveScenario } from '../../seeded-bugs/naive-scenario.ts';
import { mechanismScenarios } from './mechanism-scenarios.ts';

/** What `explore` needs of a scenario. */
export type SimulatedScenario = Pick<
  ExploreOptions,
  'scenario' | 'customKinds' | 'otherControllers' | 'replicas' | 'leaderElection' | 'maxDisturbances'
>;

/** Of the scenarios of our kinds, those whose other controllers a simulation can play. */
const ofOurKinds = [
  'echo',
  'echo-name-taken',
  'echo-in-motion',
  'scheduled-echo',
  'scheduled-echo-name-taken',
  'pod-set',
  'pod-set-in-motion',
];

/** The pods of the Job end. */
const withPods = (scenario: Scenario): Scenario => ({
  ...scenario,
  steps: {
    ...scenario.steps,
    print: async ({ client, namespace }) => {
      for (const { metadata } of (await client.list(Pod, { namespace })).items)
        await client.mergeStatus(Pod, metadata, { phase: 'Succeeded' });
    },
  },
});

const simulated = (scenario: Scenario): SimulatedScenario => ({
  scenario,
  // A controller of ScheduledEchos asks for Echos.
  customKinds: [Echo],
  otherControllers: jobController,
});

/** Two processes contend for a Lease. */
const withReplicas = (...names: readonly string[]): readonly SimulatedScenario[] =>
  scenariosOn({ endPods: async () => {} })
    .filter(({ name }) => names.includes(name))
    .map((scenario) => ({
      ...simulated({
        ...scenario,
        name: `${scenario.name}-of-two-replicas`,
      }),
      replicas: 2,
      leaderElection: { lease: { namespace: 'default', name: 'operator' } },
    }));

/** Every scenario that a simulation can run, by name. */
export const simulatedScenarios: ReadonlyMap<string, SimulatedScenario> = new Map(
  [
    ...scenariosOn({ endPods: async () => {} })
      .filter(({ name }) => ofOurKinds.includes(name))
      .map((scenario) => simulated(scenario.name === 'echo' ? withPods(scenario) : scenario)),
    ...simulatedOnly.map(simulated),
    ...withReplicas('echo', 'scheduled-echo'),
    // Undisturbed: its controller creates another child if the response to a creation is lost.
    simulated({ ...naiveScenario, perturbedSteps: [] }),
    ...mechanismScenarios.map((scenario) => ({ scenario })),
  ].map((each) => [each.scenario.name, each]),
);

/** @throws RangeError if there is no such scenario */
export function simulatedScenario(name: string): SimulatedScenario {
  const found = simulatedScenarios.get(name);
  if (found === undefined)
    throw new RangeError(`there is no simulated scenario ${name}: ${[...simulatedScenarios.keys()]}`);
  return found;
}
