/** A point in time, by both clocks of this machine. */
export interface Instant {
  /** performance.now: is never set, but stands still while the machine is suspended. */
  readonly monotonicMs: number;
  /** Date.now: continues during a suspension, but can be set. */
  readonly wallMs: number;
}

export const currentInstant = (): Instant => ({ monotonicMs: performance.now(), wallMs: Date.now() });

/** The time that has passed since the instant, by the clock that says more, in milliseconds. */
export const maxElapsedMs = (since: Instant): number =>
  Math.max(performance.now() - since.monotonicMs, Date.now() - since.wallMs);
