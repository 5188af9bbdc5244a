/** The heap in use after a collection, at one moment. */
export interface Sample {
  readonly elapsedMs: number;
  readonly heapBytes: number;
}

/** The part of the time that does not count. */
const warmUp = 0.2;

/**
 * By how much of itself the heap has risen from the end of the warm-up to the end, on the line of least squares.
 *
 * @throws RangeError for less than three samples: any two lie on a line.
 */
export function rise(samples: readonly Sample[]): number {
  const endMs = samples.at(-1)?.elapsedMs ?? 0;
  const counted = samples.filter(({ elapsedMs }) => elapsedMs >= endMs * warmUp);
  if (counted.length < 3) throw new RangeError(`${counted.length} samples make no line`);
  const meanMs = mean(counted.map(({ elapsedMs }) => elapsedMs));
  const meanBytes = mean(counted.map(({ heapBytes }) => heapBytes));
  const covariance = mean(counted.map(({ elapsedMs, heapBytes }) => (elapsedMs - meanMs) * (heapBytes - meanBytes)));
  const variance = mean(counted.map(({ elapsedMs }) => (elapsedMs - meanMs) ** 2));
  const slope = covariance / variance;
  return (slope * (endMs * (1 - warmUp))) / meanBytes;
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
