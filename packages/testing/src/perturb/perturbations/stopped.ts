import type { RunningOperator } from '../operator.ts';
import { Handover } from './handover.ts';

/** The operator leads, and is told to stop. The write is sent. A warm standby takes over. */
export class Stopped extends Handover {
  protected async leave(leader: RunningOperator): Promise<void> {
    this.run.note(`operator ${leader.number} is told to stop`);
    await leader.stop();
  }
}
