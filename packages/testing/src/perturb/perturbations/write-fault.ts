import type { Fault, InjectedFault } from '../../fault.ts';
import type { ProxiedRequest } from '../../proxied-request.ts';
import type { RunningOperator } from '../operator.ts';
import type { ExternalWrite } from '../scenario.ts';
import type { Perturbation, PerturbedRun } from './perturbation.ts';

/** Perturbs a write to the API server by a fault of the proxy, and one to another system in the same way. */
export abstract class WriteFault implements Perturbation {
  protected readonly run: PerturbedRun;
  protected abstract readonly fault: Fault;
  #injected: InjectedFault | undefined;
  #hasStruckExternal = false;

  constructor(run: PerturbedRun) {
    this.run = run;
  }

  get isHit(): boolean {
    return this.#hasStruckExternal || (this.#injected?.count ?? 0) > 0;
  }

  onPlannedWrite(request: ProxiedRequest, { proxy }: RunningOperator): void {
    this.#injected = proxy.inject(this.fault, { on: (each) => each === request });
  }

  abstract onPlannedExternalWrite(write: ExternalWrite, operator: RunningOperator): ExternalWrite;

  afterPlannedStep(): void {
    this.endFault();
  }

  protected endFault(): void {
    this.#injected?.off();
  }

  /** At a write to another system, the operator crashes for the API server too. */
  protected crash({ proxy }: RunningOperator): void {
    this.hasStruckExternal();
    proxy.crash();
  }

  /** The perturbation of a write to another system has taken place. */
  protected hasStruckExternal(): void {
    this.#hasStruckExternal = true;
  }
}

/** A write to another system that does not get there. */
export const discarded: ExternalWrite = { isForwarded: Promise.resolve(false), respond: () => false };
