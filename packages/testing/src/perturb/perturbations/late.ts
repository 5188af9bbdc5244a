import type { ProxiedRequest } from '../../proxied-request.ts';
import type { RunningOperator } from '../operator.ts';
import type { ExternalWrite } from '../scenario.ts';
import type { Check } from './perturbation.ts';
import { WriteFault } from './write-fault.ts';

/** The operator crashes while the write is on its way. The API server gets it when the new operator rests. */
export class Late extends WriteFault {
  protected readonly fault = { type: 'crash', at: 'late' } as const;
  /** The operator has to correct what the write does. */
  readonly unchecked: readonly Check[] = ['always', 'changes'];

  override onPlannedWrite(request: ProxiedRequest, operator: RunningOperator): void {
    super.onPlannedWrite(request, operator);
    operator.isCutOff = true;
    this.run.hold(() => {
      operator.isCutOff = false;
      this.endFault();
    });
  }

  onPlannedExternalWrite({ respond }: ExternalWrite, operator: RunningOperator): ExternalWrite {
    this.crash(operator);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.run.hold(() => resolve(true));
    return {
      isForwarded: promise,
      respond: () => {
        respond();
        return false;
      },
    };
  }
}
