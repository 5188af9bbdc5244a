/** Returns a quantile by the nearest-rank method. @param part 0 to 1 */
export const quantile = (values: readonly number[], part: number): number => nearestRank(inOrder(values), part);

/** Returns the quantiles from 0 to 100 % in even steps: `steps` + 1 values. */
export function evenQuantiles(values: readonly number[], steps: number): readonly number[] {
  const sorted = inOrder(values);
  return Array.from({ length: steps + 1 }, (_, step) => nearestRank(sorted, step / steps));
}

/** Returns the middle value, or the mean of the two middle values. */
export const median = (values: readonly number[]): number => middleOf(inOrder(values));

/** A median and an interval of order statistics around it. */
export interface Estimate {
  readonly median: number;
  /** The lower end of the interval. */
  readonly low: number;
  /** The upper end of the interval. */
  readonly high: number;
  /** How many values there are. */
  readonly count: number;
  /** The probability that the interval holds the true median, if the values are independent: 0 to 1. */
  readonly coverage: number;
}

/** Six to eight values reach it only from the least to the greatest. Fewer do not reach it. */
const askedCoverage = 0.95;

/**
 * Returns the median and the narrowest interval of order statistics that holds the true median with a probability of at
 * least 95 %, or from the least to the greatest value if none does. It assumes nothing of the distribution
 * (https://en.wikipedia.org/wiki/Order_statistic, confidence intervals for quantiles).
 *
 * @param values up to a thousand
 */
export function medianWithInterval(values: readonly number[]): Estimate {
  const sorted = inOrder(values);
  const { length: count } = sorted;
  const estimate = (rank: number, coverage: number): Estimate => ({
    median: middleOf(sorted),
    low: sorted[rank] ?? Number.NaN,
    high: sorted[count - 1 - rank] ?? Number.NaN,
    count,
    coverage,
  });
  // The probability that exactly `rank` of the values lie below the true median: that of as many heads in `count`
  // tosses.
  let exactly = 0.5 ** count;
  let narrowest = estimate(0, 1 - 2 * exactly);
  for (let rank = 1; ; rank++) {
    exactly *= (count - rank + 1) / rank;
    const coverage = narrowest.coverage - 2 * exactly;
    if (coverage < askedCoverage) return narrowest;
    narrowest = estimate(rank, coverage);
  }
}

/**
 * Returns Spearman's rank correlation of distinct values with their positions: 1 if they ascend, -1 if they descend,
 * about 0 in a random order (https://en.wikipedia.org/wiki/Spearman%27s_rank_correlation_coefficient).
 *
 * @param values at least two
 */
export function rankCorrelation(values: readonly number[]): number {
  const count = values.length;
  const order = values.map((value, position) => ({ value, position })).sort((a, b) => a.value - b.value);
  const squares = order.reduce((sum, { position }, rank) => sum + (position - rank) ** 2, 0);
  return 1 - (6 * squares) / (count * (count ** 2 - 1));
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
