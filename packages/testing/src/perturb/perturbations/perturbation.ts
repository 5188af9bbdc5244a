import type { Kind } from '@echoperator/runtime';
import type { FaultProxy, ObservedResponse } from '../../fault-proxy.ts';
import type { ProxiedRequest } from '../../proxied-request.ts';
import type { RunningOperator } from '../operator.ts';
import type { ExternalWrite, Scenario, ScenarioWorld } from '../scenario.ts';

/**
 * A perturbation of one run. The run calls these methods; those that a perturbation lacks do nothing.
 *
 * Those with "planned" are about the step or the write that the plan names. The others are called during the whole run.
 */
export interface Perturbation {
  /** Whether it has taken place. */
  readonly isHit: boolean;
  /** Whether two operators contend for a Lease. Default false. */
  readonly hasStandby?: boolean;
  /** What is not checked, because the perturbation changes it. Default: nothing. */
  readonly unchecked?: readonly Check[];
  /** Whether the operator cannot rest yet, because it has still to receive something. Default false. */
  readonly isPending?: boolean;
  /** Before the user's action of the planned step. */
  beforePlannedStep?(operator: RunningOperator): Promise<void> | void;
  /** The operator sends a write in the planned step, also one that is not planned. */
  onWriteOfPlannedStep?(operator: RunningOperator): void;
  /** The operator has sent the planned write, and the proxy has not forwarded it yet. */
  onPlannedWrite?(request: ProxiedRequest, operator: RunningOperator): void;
  /** The planned write is one to another system. Returns what the proxy in front of it must do, by default `write`. */
  onPlannedExternalWrite?(write: ExternalWrite, operator: RunningOperator): ExternalWrite;
  /** After the planned step, also if it has failed: ends what would go on. */
  afterPlannedStep?(): void;
  /** An operator that will use this proxy has not connected yet. */
  onStart?(proxy: FaultProxy): void;
  /** The operator opens a watch. */
  onWatch?(request: ProxiedRequest): void;
  /** The operator has received a list. */
  onList?(request: ProxiedRequest, response: ObservedResponse, operator: RunningOperator): void;
  /** The operator has nothing to do: no key is queued. Called repeatedly. */
  onIdle?(): Promise<void>;
}

/**
 * - `always`: the check of the scenario that holds at any time
 * - `changes`: how often objects are created and deleted
 * - `generations`: the generations of objects
 */
export type Check = 'always' | 'changes' | 'generations';

/** What a perturbation uses of its run. */
export interface PerturbedRun {
  readonly scenario: Scenario;
  readonly world: ScenarioWorld;
  /** Adds a line to the timeline. */
  note(line: string): void;
  /** Makes the run fail, whatever else happens. */
  fail(violation: Error): void;
  /** Something happens that is no request, response or event: the operator does not rest yet. */
  noteActivity(): void;
  /**
   * Calls `release` when the operator rests, or after three seconds: a step may wait for what the operator does only
   * with events.
   */
  hold(release: () => void): void;
  /** Calls `release` when the operator rests. */
  holdUntilRest(release: () => void): void;
  /** Lets the standby take over when the leader has left. */
  handOver(leader: RunningOperator, hasLeft: Promise<void>): void;
}

/** Where in a scenario the operator sends a write. */
export interface WhereWritten {
  readonly scenario: Scenario;
  readonly isLastStep: boolean;
}

/** A class of perturbations of a write. */
export interface WritePerturbationClass {
  new (run: PerturbedRun): Perturbation;
  /** Whether the operator may do without the write because of the perturbation. Default false. */
  readonly mayPreventWrite?: boolean;
  /** Whether it makes sense for a write, such as `patch echos hello/status`. Default: for all. */
  appliesTo?(write: string, where: WhereWritten): boolean;
}

/** A class of perturbations of the operator's view of a kind. */
export type ViewPerturbationClass = new (run: PerturbedRun, kind: Kind) => Perturbation;
