import { setTimeout as delay } from 'node:timers/promises';

/** CLOCK_MONOTONIC in milliseconds. All processes of a machine share it, and nobody can set it. */
export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** The wall clock was set, so its times cannot be converted to the monotonic clock. */
class WallClockSetError extends Error {
  override readonly name = 'WallClockSetError';
}

/**
 * The largest change between two samples that counts as drift, in milliseconds. Slewing causes up to 0.5 ms per second.
 */
const driftMs = 5;

/**
 * Converts times of the wall clock, which audit logs contain, to the monotonic clock. It compares the clocks once a
 * second, because NTP slews the wall clock.
 */
export class WallClock {
  readonly #samples: { readonly atMs: number; readonly aheadMs: number }[] = [sample()];

  /** Samples the clocks until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await delay(1_000, undefined, { signal }).catch(() => {});
      this.#samples.push(sample());
    }
  }

  /**
   * @param time as an API server writes it: `2006-01-02T15:04:05.000000Z`.
   * @returns milliseconds of the monotonic clock, with an error below 1 ms.
   * @throws WallClockSetError
   */
  toMonotonicMs(time: string): number {
    // Date has only milliseconds.
    const wallMs = Date.parse(`${time.slice(0, 19)}Z`) + Number(`0${time.slice(19, -1)}`) * 1000;
    const index = this.#samples.findIndex(({ atMs, aheadMs }) => atMs + aheadMs >= wallMs);
    const after = this.#samples.at(index)!;
    const before = this.#samples[Math.max(0, index - 1)]!;
    if (index > 0 && Math.abs(after.aheadMs - before.aheadMs) > driftMs) {
      const byMs = Math.round(after.aheadMs - before.aheadMs);
      throw new WallClockSetError(`the machine's wall clock was set by ${byMs} ms: its times cannot be compared`);
    }
    return wallMs - after.aheadMs;
  }
}

/** Samples both clocks when Date.now, which has whole milliseconds, changes: only then it is exact. */
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
    // Otherwise the process was not running, and the millisecond may have begun at any time meanwhile.
    if (atMs - previousMs < 0.1) return { atMs, aheadMs: now - atMs };
  }
}
