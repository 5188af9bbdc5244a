import type { MutationSubject, Scenario } from '@echoperator/testing';
import { type ControllerName, controllerNames } from '../../src/kinds.ts';
import type { TestCluster } from '../../testkit/test-cluster.ts';
import { fileNameOf } from '../../tools/generate/file-names.ts';
import type { ExternalSystems } from '../integration/environment/external-systems.ts';
import type { SeededBug } from '../seeded-bugs/seeded-bug.ts';
import type { External } from './external.ts';
import type { KindPlans } from './kind-plans.ts';

/**
 * The plans of each kind in the list of src/kinds.ts, from the file with its name.
 *
 * @throws Error if a kind has no file
 */
export const kindPlans = Object.fromEntries(
  await Promise.all(
    controllerNames.map(async (name) => {
      const file = `./${fileNameOf(name)}.ts`;
      const { plans } = (await import(file)) as { readonly plans: KindPlans };
      return [name, plans] as const;
    }),
  ),
) as Readonly<Record<ControllerName, KindPlans>>;

/**
 * The kinds whose pages have commands that need an external system, or take long. `test/unit/docs.test.ts` names the
 * tests that run them; those of the others are run by `test/kinds/commands.test.ts`.
 */
export const pagesRunElsewhere: readonly ControllerName[] = ['bookStore', 'pet', 'postgresWriter'];

const all = Object.values(kindPlans);

/** A subject of each kind, for an operator that runs all controllers. */
export const mutatedSubjects = (external: External): readonly MutationSubject[] =>
  all.map(({ subject }) => subject(external));

/**
 * The life of an object of each kind without systems outside of the cluster. The API server needs
 * kube-controller-manager.
 */
export const scenariosOn = (cluster: Pick<TestCluster, 'endPods'>): readonly Scenario[] =>
  all.flatMap(({ scenarios }) => scenarios?.(cluster) ?? []);

/** What only a simulation runs. */
export const simulatedOnly: readonly Scenario[] = all.flatMap(({ simulatedScenarios = [] }) => simulatedScenarios);

/** The life of an object of each kind with a system outside of the cluster. */
export const externalScenariosOn = (external: ExternalSystems): readonly Scenario[] =>
  all.flatMap(({ externalScenarios }) => externalScenarios?.(external) ?? []);

/** Bugs of the kinds. */
export const kindBugs: readonly SeededBug[] = all.flatMap(({ bugs }) => bugs);
