/** A system outside of the cluster cannot be used: nothing was sent to it, or what was sent has had no good end. */
export class OutsideDownError extends Error {
  override readonly name = 'OutsideDownError';
  /** As its {@link Circuit} calls it. */
  readonly system: string;
  /** One CamelCase word, for a condition. */
  readonly reason: string;
  /** When it was first found down. */
  readonly since: Date;
  /** In how many milliseconds to ask again; each who asks has another answer. */
  readonly retryAfterMs: number;

  /** @param details.cause the first error of that reason, the same for all who meet it: a status would else change with each. */
  constructor(
    system: string,
    details: { readonly reason: string; readonly since: Date; readonly cause: unknown; readonly retryAfterMs: number },
  ) {
    const { reason, since, cause, retryAfterMs } = details;
    super(`${system}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.system = system;
    this.reason = reason;
    this.since = since;
    this.retryAfterMs = retryAfterMs;
  }
}
