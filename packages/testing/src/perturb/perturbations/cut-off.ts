import { isWatch } from '../../proxied-request.ts';
import { leaseTimings, type RunningOperator } from '../operator.ts';
import { Handover } from './handover.ts';

/**
 * The operator leads, and is cut off from the API server. Its Lease expires, and a warm standby takes over. The network
 * is restored when that one rests; the former leader must not send anything then.
 */
export class CutOff extends Handover {
  protected async leave(leader: RunningOperator): Promise<void> {
    this.run.note(`operator ${leader.number} is cut off`);
    const { promise, resolve } = Promise.withResolvers<void>();
    const faults = [
      leader.proxy.inject({ type: 'delayed', until: () => promise }),
      leader.proxy.inject({ type: 'hold', expires: false }, { on: isWatch }),
    ];
    leader.isCutOff = true;
    // Not after a fixed time: before the Lease has expired, the standby does not work.
    this.run.holdUntilRest(() => {
      leader.isCutOff = false;
      resolve();
      for (const fault of faults) fault.off();
    });
    await leader.loseLease(3000 * leaseTimings.renewDeadlineSeconds);
    this.run.note(`operator ${leader.number} has lost its Lease`);
  }
}
