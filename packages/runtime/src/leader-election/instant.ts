/** A point in time, by both clocks of this machine. */
export interface Instant {
  /** `performance.now`: nobody can set it, but it stops while the machine is suspended. */
  readonly monotonicMs: number;
  /** `Date.now`: continues during a suspension, but can be set. */
  readonly wallMs: number;
}

export const currentInstant = (): Instant => ({ monotonicMs: performance.now(), wallMs: Date.now() });

/** The time since the instant, in milliseconds: the larger of the two clocks' differences. */
export const maxElapsedMs = (since: Instant): number =>
  Math.max(performance.now() - since.monotonicMs, Date.now() - since.wallMs);
