/** The size of the heap after a garbage collection. */
export interface Sample {
  readonly elapsedMs: number;
  readonly heapBytes: number;
}

/** The fraction of the time that does not count. */
const warmUp = 0.2;

/**
 * Returns the increase of the heap from the end of the warm-up to the end, as a fraction of its mean, by least squares.
 *
 * @throws RangeError for fewer than three samples after the warm-up
 */
export function relativeIncrease(samples: readonly Sample[]): number {
  const endMs = samples.at(-1)?.elapsedMs ?? 0;
  const counted = samples.filter(({ elapsedMs }) => elapsedMs >= endMs * warmUp);
  if (counted.length < 3) throw new RangeError(`${counted.length} samples are too few for a trend`);
  const meanMs = mean(counted.map(({ elapsedMs }) => elapsedMs));
  const meanBytes = mean(counted.map(({ heapBytes }) => heapBytes));
  const covariance = mean(counted.map(({ elapsedMs, heapBytes }) => (elapsedMs - meanMs) * (heapBytes - meanBytes)));
  const variance = mean(counted.map(({ elapsedMs }) => (elapsedMs - meanMs) ** 2));
  const slope = covariance / variance;
  return (slope * (endMs * (1 - warmUp))) / meanBytes;
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
