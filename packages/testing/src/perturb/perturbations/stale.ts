import type { InjectedFault } from '../../fault.ts';
import { isWatch } from '../../proxied-request.ts';
import type { RunningOperator } from '../operator.ts';
import { Retried } from './retried.ts';

const staleMs = 1000;

/** Like `retried`, and from the first write of the step on, the operator receives no events for a second. */
export class Stale extends Retried {
  /** An operator that sees its objects late may do without a write. */
  static readonly mayPreventWrite = true;

  /** Withholds the events, once. */
  #withheld: InjectedFault | undefined;

  get isPending(): boolean {
    return this.#withheld?.ended.aborted === false;
  }

  onWriteOfPlannedStep({ proxy }: RunningOperator): void {
    if (this.#withheld !== undefined) return;
    const fault = proxy.inject({ type: 'hold', expires: false }, { on: isWatch });
    this.#withheld = fault;
    this.run.note(`no events for ${staleMs} ms`);
    setTimeout(() => {
      fault.off();
      this.run.noteActivity();
    }, staleMs);
  }
}
