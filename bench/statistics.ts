/** The value that so large a part (0 to 1) of the values do not exceed: the nearest rank. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const value = sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)];
  if (value === undefined) throw new RangeError('no values');
  return value;
}

/** The quantiles from 0 to 100 % in so many even steps: one more than steps. */
export function evenQuantiles(values: readonly number[], steps: number): readonly number[] {
  const sorted = [...values].sort((a, b) => a - b);
  if (sorted.length === 0) throw new RangeError('no values');
  return Array.from({ length: steps + 1 }, (_, step) => {
    const rank = Math.max(1, Math.ceil((step / steps) * sorted.length));
    return sorted[rank - 1] ?? Number.NaN;
  });
}

/** The middle value, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.slice(Math.floor((sorted.length - 1) / 2), Math.floor(sorted.length / 2) + 1);
  if (middle.length === 0) throw new RangeError('no values');
  return middle.reduce((sum, value) => sum + value, 0) / middle.length;
}

export interface Estimate {
  readonly median: number;
  /** The 95 % interval. */
  readonly low: number;
  readonly high: number;
}

const resamples = 10_000;

/** The median and its 95 % percentile bootstrap interval. The same values give the same interval. */
export function medianWithInterval(values: readonly number[]): Estimate {
  const random = mulberry32(values.length);
  const medians = Array.from({ length: resamples }, () =>
    median(values.map(() => values[Math.floor(random() * values.length)] ?? Number.NaN)),
  );
  return { median: median(values), low: quantile(medians, 0.025), high: quantile(medians, 0.975) };
}

/** Tommy Ettinger's mulberry32: numbers from 0 to below 1, the same for the same seed. */
function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
