/**
 * `@echoperator/testing`: a real API server that a test starts, stops and restores, and a proxy in front of the server
 * that injects faults. For any test runner.
 */
export { ApiServer, type ApiServerOptions, type CustomResourceDefinitionManifest, type Flags } from './api-server.ts';
export { eventually } from './eventually.ts';
export type { ListedObject } from './facts.ts';
export type { Fault, FaultTarget, InjectedFault } from './fault.ts';
export { FaultProxy, type FaultProxyOptions, type ObservedResponse, type ProxyObserver } from './fault-proxy.ts';
export {
  type MutateOptions,
  type MutateReport,
  MutationError,
  type MutationSubject,
  mutate,
} from './mutation.ts';
export { PerturbationError } from './perturb/errors.ts';
export { type PerturbReport, perturb, type WriteCounts } from './perturb/perturb.ts';
export type { ExternalHooks, ExternalWrite, PerturbOptions, Scenario, ScenarioWorld } from './perturb/scenario.ts';
export {
  isList,
  isStreamedList,
  isWatch,
  isWrite,
  type ProxiedRequest,
  type RequestFilter,
} from './proxied-request.ts';
export type { ServiceAccountToken } from './service-account-token.ts';
