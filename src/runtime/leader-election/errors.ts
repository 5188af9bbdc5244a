import { GateClosedError } from '../client/index.ts';

/** The Lease could not be renewed in time, or another holds it: this process must not act as leader any more. */
export class LeadershipLostError extends GateClosedError {
  override readonly name = 'LeadershipLostError';
}

/** A request that only a leader may send, in a process that does not lead, yet or any more. One that was queued was not sent. */
export class NotLeadingError extends GateClosedError {
  override readonly name = 'NotLeadingError';
}
