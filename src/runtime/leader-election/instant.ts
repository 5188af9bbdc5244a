/** A moment, by both clocks of this machine. */
export interface Instant {
  /** performance.now: never set, but stands still while the machine is suspended. */
  readonly monotonicMs: number;
  /** Date.now: goes on during a suspension, but can be set. */
  readonly wallMs: number;
}

export const now = (): Instant => ({ monotonicMs: performance.now(), wallMs: Date.now() });

/** How much time has passed at the most: by the clock that says more. */
export const elapsedMsAtMost = (since: Instant): number =>
  Math.max(performance.now() - since.monotonicMs, Date.now() - since.wallMs);
