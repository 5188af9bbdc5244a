import { setTimeout as delay } from 'node:timers/promises';

/** CLOCK_MONOTONIC in milliseconds: all processes of a machine have the same, and nobody sets it. */
export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** The wall clock was set while its times were compared with those of the monotonic clock. */
export class WallClockSetError extends Error {
  override readonly name = 'WallClockSetError';
}

/** How far the two clocks may move against each other between two looks, in milliseconds. Slewing makes half of one a second. */
const driftMs = 5;

/**
 * Tells what the monotonic clock said at a time of the wall clock, which is all that an audit log has. The two are
 * compared once a second: NTP makes one faster or slower than the other.
 */
export class WallClock {
  readonly #samples: { readonly atMs: number; readonly aheadMs: number }[] = [sample()];

  /** Compares the clocks until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await delay(1_000, undefined, { signal }).catch(() => {});
      this.#samples.push(sample());
    }
  }

  /**
   * @param time as an API server writes it: `2006-01-02T15:04:05.000000Z`.
   * @returns milliseconds of the monotonic clock, to less than one.
   * @throws WallClockSetError
   */
  toMonotonicMs(time: string): number {
    // Date knows milliseconds only.
    const wallMs = Date.parse(`${time.slice(0, 19)}Z`) + Number(`0${time.slice(19, -1)}`) * 1000;
    const index = this.#samples.findIndex(({ atMs, aheadMs }) => atMs + aheadMs >= wallMs);
    const after = this.#samples.at(index)!;
    const before = this.#samples[Math.max(0, index - 1)]!;
    if (index > 0 && Math.abs(after.aheadMs - before.aheadMs) > driftMs) {
      const byMs = Math.round(after.aheadMs - before.aheadMs);
      throw new WallClockSetError(`the machine's wall clock was set by ${byMs} ms: its times can't be compared`);
    }
    return wallMs - after.aheadMs;
  }
}

/** Date.now tells whole milliseconds: where one begins, it is exact. */
function sample(): { readonly atMs: number; readonly aheadMs: number } {
  for (;;) {
    const before = Date.now();
    let now = before;
    let previousMs = monotonicMs();
    let atMs = previousMs;
    while (now === before) {
      previousMs = atMs;
      now = Date.now();
      atMs = monotonicMs();
    }
    // Else this process did not run for a while, and the millisecond may have begun at any moment of it.
    if (atMs - previousMs < 0.1) return { atMs, aheadMs: now - atMs };
  }
}
