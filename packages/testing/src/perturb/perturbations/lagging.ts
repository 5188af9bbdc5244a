import type { Kind } from '@echoperator/runtime';
import type { InjectedFault } from '../../fault.ts';
import { isWatch } from '../../proxied-request.ts';
import type { RunningOperator } from '../operator.ts';
import type { Perturbation, PerturbedRun } from './perturbation.ts';

/** The watch of a kind delivers nothing until the operator rests, as from an API server whose cache lags. */
export class Lagging implements Perturbation {
  protected readonly kind: Kind;
  /** Whether the watch ends with 410 instead of delivering what it has held. */
  protected readonly expires: boolean = false;
  readonly #run: PerturbedRun;
  #hold: InjectedFault | undefined;

  constructor(run: PerturbedRun, kind: Kind) {
    this.#run = run;
    this.kind = kind;
  }

  get isHit(): boolean {
    return (this.#hold?.count ?? 0) > 0;
  }

  beforePlannedStep(operator: RunningOperator): void {
    const hold = operator.proxy.inject(
      { type: 'hold', expires: this.expires },
      { on: (request) => isWatch(request) && request.resource === this.kind.plural },
    );
    this.#hold = hold;
    this.#run.note(`operator ${operator.number} receives nothing of ${this.kind.kind}`);
    this.#run.hold(() => this.release(hold, operator));
  }

  afterPlannedStep(): void {
    this.#hold?.off();
  }

  protected release(hold: InjectedFault, _operator: RunningOperator): void {
    hold.off();
  }
}
