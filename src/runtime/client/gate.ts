/**
 * What requests have to pass before they begin: a leader's fence, for one. Any other way to the outside (SQL, gRPC) that
 * only a leader may take passes it too.
 *
 * @example
 * gate.pass();
 * await pool.query({ text, values, signal: gate.signal });
 */
export interface Gate {
  /**
   * To be called where the request leaves, not where it is queued.
   *
   * @throws GateClosedError that says why no request may begin now.
   */
  pass(): void;
  /** Aborted when no request may begin any more and what is under way has to end. */
  readonly signal: AbortSignal;
}

/** No request may begin: the reconcile that wanted to send it is over, which is nobody's failure. */
export class GateClosedError extends Error {
  override readonly name: string = 'GateClosedError';
}
