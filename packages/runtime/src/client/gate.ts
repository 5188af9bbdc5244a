/**
 * A check that each request must pass before it starts, for example a leader's fence. Use it also for other outgoing
 * calls (SQL, gRPC) that only a leader may make.
 *
 * @example
 * gate.pass();
 * await pool.query({ text, values, signal: gate.signal });
 */
export interface Gate {
  /**
   * Call this immediately before the request is sent, not when it is queued.
   *
   * @param call what is about to be sent to an external system, without values: `INSERT INTO books`. `planOperator`
   *   reports it. Default: not described.
   * @throws GateClosedError if no request may start now.
   */
  pass(call?: string): void;
  /** Aborts when the gate closes for good: no further request may start, and requests in flight must end. */
  readonly signal: AbortSignal;
}

/**
 * The gate is closed. The request was either not sent, or was aborted and may have taken effect. The reconcile ends,
 * counts as an error in the metrics, and is not retried.
 */
export class GateClosedError extends Error {
  override readonly name: string = 'GateClosedError';
}
