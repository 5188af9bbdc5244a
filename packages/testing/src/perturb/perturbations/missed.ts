import type { InjectedFault } from '../../fault.ts';
import type { ProxiedRequest } from '../../proxied-request.ts';
import type { RunningOperator } from '../operator.ts';
import { Lagging } from './lagging.ts';

/** Like `lagging`, but then the operator lists again: it never sees what happened in between. */
export class Missed extends Lagging {
  protected override readonly expires = true;
  /** The watch has expired, and the operator has not listed again. */
  #isListAwaited = false;

  get isPending(): boolean {
    return this.#isListAwaited;
  }

  onWatch({ resource }: ProxiedRequest): void {
    if (resource === this.kind.plural) this.#isListAwaited = false;
  }

  protected override release(hold: InjectedFault, operator: RunningOperator): void {
    this.#isListAwaited = true;
    // The next list delivers every object again.
    for (const [uid, { kind }] of operator.observed) if (kind === this.kind.kind) operator.observed.delete(uid);
    super.release(hold, operator);
  }
}
