/**
 * `@echoperator/runtime/simulation`: runs an operator against an API server in memory, on a clock of its own. Unit tests take
 * milliseconds, and `explore` tries schedules that no test thinks of. For any test runner.
 */
export { ExplorationError, type ExploreOptions, type ExploreReport, explore } from './explore.ts';
export {
  type AdmittedRequest,
  SimulatedApiServer,
  type SimulatedApiServerOptions,
  type SimulatedResponse,
} from './simulated-api-server.ts';
export type { SimulationStep } from './simulated-network.ts';
export type { SimulatedProcess } from './simulated-process.ts';
export type { SimulatedWatch } from './simulated-watch.ts';
export { type ClusterOptions, type Simulation, type SimulationOptions, simulate } from './simulation.ts';
export { NotSimulatedError, type StoredObject } from './strategy.ts';
