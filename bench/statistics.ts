/** Returns a quantile by the nearest-rank method. @param part 0 to 1 */
export const quantile = (values: readonly number[], part: number): number => nearestRank(inOrder(values), part);

/** Returns the quantiles from 0 to 100 % in even steps: `steps` + 1 values. */
export function evenQuantiles(values: readonly number[], steps: number): readonly number[] {
  const sorted = inOrder(values);
  return Array.from({ length: steps + 1 }, (_, step) => nearestRank(sorted, step / steps));
}

/** Returns the middle value, or the mean of the two middle values. */
export const median = (values: readonly number[]): number => middleOf(inOrder(values));

export interface Estimate {
  readonly median: number;
  /** The 95 % interval. */
  readonly low: number;
  readonly high: number;
}

const resamples = 10_000;

/** Returns the median and its 95 % percentile bootstrap interval. The same values give the same interval. */
export function medianWithInterval(values: readonly number[]): Estimate {
  const middle = median(values);
  if (values.every((value) => value === middle)) return { median: middle, low: middle, high: middle };
  const random = mulberry32(values.length);
  const medians = new Float64Array(resamples);
  const sample = new Float64Array(values.length);
  for (let index = 0; index < resamples; index++) {
    for (let drawn = 0; drawn < sample.length; drawn++) {
      sample[drawn] = values[Math.floor(random() * values.length)] ?? Number.NaN;
    }
    medians[index] = middleOf(sample.sort());
  }
  medians.sort();
  return { median: middle, low: nearestRank(medians, 0.025), high: nearestRank(medians, 0.975) };
}

/** @param sorted at least one value */
function middleOf(sorted: ArrayLike<number>): number {
  const [below, above] = [Math.floor((sorted.length - 1) / 2), Math.floor(sorted.length / 2)];
  return ((sorted[below] ?? Number.NaN) + (sorted[above] ?? Number.NaN)) / 2;
}

/** @param sorted at least one value */
const nearestRank = (sorted: ArrayLike<number>, part: number): number =>
  sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? Number.NaN;

/** Returns the sorted numbers. @throws RangeError if there are none */
function inOrder(values: readonly number[]): Float64Array {
  if (values.length === 0) throw new RangeError('no values');
  return Float64Array.from(values).sort();
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
