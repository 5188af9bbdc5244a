import type { ProxiedRequest } from '../../proxied-request.ts';
import type { RunningOperator } from '../operator.ts';
import type { ExternalWrite } from '../scenario.ts';
import type { Perturbation, PerturbedRun } from './perturbation.ts';

/** The operator leads, and leaves at the write. A warm standby takes over. */
export abstract class Handover implements Perturbation {
  readonly hasStandby = true;
  protected readonly run: PerturbedRun;
  #isHit = false;

  constructor(run: PerturbedRun) {
    this.run = run;
  }

  get isHit(): boolean {
    return this.#isHit;
  }

  onPlannedWrite(_request: ProxiedRequest, leader: RunningOperator): void {
    this.#begin(leader);
  }

  onPlannedExternalWrite(write: ExternalWrite, leader: RunningOperator): ExternalWrite {
    this.#begin(leader);
    return write;
  }

  /** Resolves when the standby can take over. */
  protected abstract leave(leader: RunningOperator): Promise<void>;

  #begin(leader: RunningOperator): void {
    this.#isHit = true;
    this.run.handOver(leader, this.leave(leader));
  }
}
