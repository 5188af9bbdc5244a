import type { RunningOperator } from '../operator.ts';
import type { ExternalWrite } from '../scenario.ts';
import { discarded, WriteFault } from './write-fault.ts';

/** The operator crashes before the write is sent. A new operator takes over. */
export class Unsent extends WriteFault {
  protected readonly fault = { type: 'crash', at: 'unsent' } as const;

  onPlannedExternalWrite(_write: ExternalWrite, operator: RunningOperator): ExternalWrite {
    this.crash(operator);
    return discarded;
  }
}
