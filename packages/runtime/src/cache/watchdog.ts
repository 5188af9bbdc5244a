import type { ReplaceWatchOptions, WatchReplacement } from './reflector.ts';

/** Options of a {@link Watchdog}. */
export interface WatchdogOptions {
  readonly timeoutMs: number;
  /** Since when an event of the watch is expected, by `performance.now`. Undefined: no event is expected. */
  readonly waitingSinceMs: () => number | undefined;
  readonly replaceWatch: (options: ReplaceWatchOptions) => WatchReplacement;
  /**
   * Called after the watch was replaced. @param isFirst whether it is the first replacement since the watch last
   * delivered something
   */
  readonly replaced: (isFirst: boolean) => void;
}

/**
 * Replaces a watch that is open and silent although an event is expected, because its connection may have died
 * silently. The first replacement resumes the watch. Further replacements relist.
 */
export class Watchdog {
  readonly #options: WatchdogOptions;
  #timer: NodeJS.Timeout | undefined;
  /** When the watch last delivered something, by `performance.now`. */
  #deliveredAtMs = 0;
  #isReplaced = false;
  #wasTooYoung = false;

  constructor(options: WatchdogOptions) {
    this.#options = options;
  }

  /** Starts checking: an event may be expected from now on. Idempotent. */
  start(): void {
    if (this.#timer === undefined) this.#startTimer(this.#options.timeoutMs);
  }

  /** Call this when the watch or a list has delivered something. */
  delivered(): void {
    this.#deliveredAtMs = performance.now();
    this.#isReplaced = false;
    this.#wasTooYoung = false;
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #startTimer(delayMs: number): void {
    this.#timer = setTimeout(() => this.#check(), delayMs).unref();
  }

  #check(): void {
    this.#timer = undefined;
    const { timeoutMs, waitingSinceMs, replaced } = this.#options;
    const sinceMs = waitingSinceMs();
    if (sinceMs === undefined) return;
    const leftMs = Math.max(sinceMs, this.#deliveredAtMs) + timeoutMs - performance.now();
    this.#startTimer(leftMs > 0 ? leftMs : timeoutMs);
    if (leftMs > 0 || !this.#replace()) return;
    replaced(!this.#isReplaced);
    this.#isReplaced = true;
  }

  /** Returns whether the watch was replaced. */
  #replace(): boolean {
    const { timeoutMs, replaceWatch } = this.#options;
    // The watch was just replaced or its connection broke. Give the new watch enough time.
    const replacement = replaceWatch({ relist: this.#isReplaced, openForMs: timeoutMs / 2 });
    if (replacement !== 'tooYoung') return replacement === 'replaced';
    // If the next watch is also too young, replace it anyway: the watches end so soon that none gets old enough.
    const isTooYoungAgain = this.#wasTooYoung;
    this.#wasTooYoung = true;
    return isTooYoungAgain && replaceWatch({ relist: true, openForMs: 0 }) === 'replaced';
  }
}
