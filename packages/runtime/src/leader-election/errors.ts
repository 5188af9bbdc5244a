import { GateClosedError } from '../client/gate.ts';

/** The Lease was not renewed in time, or another candidate holds it: this process must not act as leader any more. */
export class LeadershipLostError extends GateClosedError {
  override readonly name = 'LeadershipLostError';
  readonly reason: 'expiry' | 'taken';

  /** @param reason `expiry` (default): not renewed in time. `taken`: somebody else has changed the holder. */
  constructor(message: string, reason: 'expiry' | 'taken' = 'expiry') {
    super(message);
    this.reason = reason;
  }
}

/** Another operator works in the same namespaces, so this one must not. */
export class ScopeTakenError extends Error {
  override readonly name = 'ScopeTakenError';

  /** @param conflict which operator works where. */
  constructor(conflict: string) {
    super(`two operators must not watch the same namespace: ${conflict}`);
  }
}

/**
 * A request that only the leader may send, in a process that does not lead yet or has stopped leading. It was not sent.
 */
export class NotLeadingError extends GateClosedError {
  override readonly name = 'NotLeadingError';
}
