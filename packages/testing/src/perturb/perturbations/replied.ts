import type { RunningOperator } from '../operator.ts';
import type { ExternalWrite } from '../scenario.ts';
import { WriteFault } from './write-fault.ts';

/** The operator crashes when it has the response. A new operator takes over. */
export class Replied extends WriteFault {
  protected readonly fault = { type: 'crash', at: 'replied' } as const;

  onPlannedExternalWrite({ isForwarded, respond }: ExternalWrite, operator: RunningOperator): ExternalWrite {
    return {
      isForwarded,
      respond: () => {
        const isDelivered = respond();
        // When the proxy has delivered the response.
        setImmediate(() => this.crash(operator));
        return isDelivered;
      },
    };
  }
}
