import type { RunningOperator } from '../operator.ts';
import type { ExternalWrite } from '../scenario.ts';
import { WriteFault } from './write-fault.ts';

/** The API server commits the write, and the operator crashes before it has the response. A new operator takes over. */
export class ReplyLost extends WriteFault {
  protected readonly fault = { type: 'crash', at: 'reply-lost' } as const;

  onPlannedExternalWrite({ isForwarded, respond }: ExternalWrite, operator: RunningOperator): ExternalWrite {
    return {
      isForwarded,
      respond: () => {
        respond();
        this.crash(operator);
        return false;
      },
    };
  }
}
