import type { RunningOperator } from '../operator.ts';
import type { OutsideWrite } from '../scenario.ts';
import { discarded, WriteFault } from './write-fault.ts';

/** The operator crashes before the write is sent. A new operator takes over. */
export class Unsent extends WriteFault {
  protected readonly fault = { type: 'crash', at: 'unsent' } as const;

  onPlannedOutsideWrite(_write: OutsideWrite, operator: RunningOperator): OutsideWrite {
    this.crash(operator);
    return discarded;
  }
}
