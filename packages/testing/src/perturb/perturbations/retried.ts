import type { ExternalWrite } from '../scenario.ts';
import { WriteFault } from './write-fault.ts';

/** The API server commits the write, the response is lost, and the operator goes on. */
export class Retried extends WriteFault {
  protected readonly fault = { type: 'lost-response' } as const;

  onPlannedExternalWrite({ isForwarded, respond }: ExternalWrite): ExternalWrite {
    return {
      isForwarded,
      respond: () => {
        respond();
        this.hasStruckExternal();
        return false;
      },
    };
  }
}
