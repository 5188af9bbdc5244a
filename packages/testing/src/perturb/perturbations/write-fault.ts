import type { Fault, InjectedFault } from '../../fault.ts';
import type { ProxiedRequest } from '../../proxied-request.ts';
import type { RunningOperator } from '../operator.ts';
import type { OutsideWrite } from '../scenario.ts';
import type { Perturbation, PerturbedRun } from './perturbation.ts';

/** Perturbs a write to the API server by a fault of the proxy, and one to another system in the same way. */
export abstract class WriteFault implements Perturbation {
  protected readonly run: PerturbedRun;
  protected abstract readonly fault: Fault;
  #injected: InjectedFault | undefined;
  #hasStruckOutside = false;

  constructor(run: PerturbedRun) {
    this.run = run;
  }

  get isHit(): boolean {
    return this.#hasStruckOutside || (this.#injected?.count ?? 0) > 0;
  }

  onPlannedWrite(request: ProxiedRequest, { proxy }: RunningOperator): void {
    this.#injected = proxy.inject(this.fault, { on: (each) => each === request });
  }

  abstract onPlannedOutsideWrite(write: OutsideWrite, operator: RunningOperator): OutsideWrite;

  afterPlannedStep(): void {
    this.endFault();
  }

  protected endFault(): void {
    this.#injected?.off();
  }

  /** At a write to another system, the operator crashes for the API server too. */
  protected crash({ proxy }: RunningOperator): void {
    this.hasStruckOutside();
    proxy.crash();
  }

  /** The perturbation of a write to another system has taken place. */
  protected hasStruckOutside(): void {
    this.#hasStruckOutside = true;
  }
}

/** A write to another system that does not get there. */
export const discarded: OutsideWrite = { isForwarded: Promise.resolve(false), respond: () => false };
