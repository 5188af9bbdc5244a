import type { MutationSubject, Scenario } from '@echoperator/testing';
import type { TestCluster } from '../../testkit/test-cluster.ts';
import type { ExternalSystems } from '../integration/environment/external-systems.ts';
import type { SeededBug } from '../seeded-bugs/seeded-bug.ts';
import type { External } from './external.ts';

/** What the tests of all kinds need of one kind: `plans` of `test/plans/<kind>.ts`. */
export interface KindPlans {
  /** A valid spec with few fields. */
  readonly example: object;
  /** What `make mutate` changes. */
  readonly subject: (external: External) => MutationSubject;
  /** What `make perturb` runs, if the kind needs no external system. The API server needs kube-controller-manager. */
  readonly scenarios?: (cluster: Pick<TestCluster, 'endPods'>) => readonly Scenario[];
  /** What only a simulation runs: changed objects beside new ones, as `mutate` compares them with more specs. */
  readonly simulatedScenarios?: readonly Scenario[];
  /** What `make perturb` runs, if the kind needs an external system. */
  readonly externalScenarios?: (external: ExternalSystems) => readonly Scenario[];
  /**
   * The plans of these scenarios that make the controller send every request that its rules allow: a write without a
   * response is followed by a `get`. `pod-set` names all plans of a scenario, `pod-set/grow` those of a step. For
   * `nightly-permissions`.
   */
  readonly permissionPlans: readonly string[];
  /** Bugs of the kind that `make seeded-bugs` tries. */
  readonly bugs: readonly SeededBug[];
}
