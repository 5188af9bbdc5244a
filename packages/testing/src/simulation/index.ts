/**
 * `@echoperator/testing/simulation`: runs an operator against an API server in memory, with a virtual clock. Unit tests
 * take milliseconds, and `explore` tries schedules that nobody would write a test for. For any test runner.
 */
export { ExplorationError, type ExploreOptions, type ExploreReport, explore } from './explore.ts';
export { jobController } from './job-controller.ts';
export type { MissedChange } from './process-oracle.ts';
export type { AdmittedRequest } from './resource-request.ts';
export type { SimulationStep } from './simulated-network.ts';
export {
  type ClusterOptions,
  type SimulatedProcess,
  type Simulation,
  type SimulationOptions,
  simulate,
} from './simulation.ts';
export { NotSimulatedError } from './strategy.ts';
