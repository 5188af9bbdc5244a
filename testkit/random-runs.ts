import fc from 'fast-check';

/** The effects of one run. */
export interface RunEffects {
  readonly writes: number;
  /** Faults that affected a request, not those that were only injected. */
  readonly faults: number;
}

export interface RandomPlan {
  /** Determines the steps of the runs and their pauses. */
  readonly seed: number;
  readonly maxRuns: number;
  /** The least number of runs with at least one write and one fault. */
  readonly minEffectiveRuns: number;
  /** The least share of such runs, from 0 to 1. Default: 0. */
  readonly minEffectiveShare?: number;
  /** No run starts later than this, in milliseconds after the first. Default: no limit. */
  readonly timeLimitMs?: number;
}

/** A random run failed. The message has the seed that repeats it. */
export class RandomRunError extends Error {
  override readonly name = 'RandomRunError';
}

/**
 * Executes the runs one after the other. Waits for the last run even after the time limit, so that every failure counts
 * and nothing runs afterwards. Does not shrink a failed run, because each run continues with the state of the previous
 * ones.
 *
 * @throws RandomRunError if a run fails, or if too few runs had a write and a fault
 */
export async function runAtRandom<T>(
  plan: RandomPlan,
  arbitrary: fc.Arbitrary<T>,
  run: (value: T) => Promise<RunEffects>,
  elapsedMs: () => number = () => performance.now(),
): Promise<void> {
  const { seed, maxRuns, minEffectiveRuns, minEffectiveShare = 0, timeLimitMs = Number.POSITIVE_INFINITY } = plan;
  const deadlineMs = elapsedMs() + timeLimitMs;
  let runs = 0;
  let effective = 0;
  for (const value of fc.sample(arbitrary, { seed, numRuns: maxRuns })) {
    if (elapsedMs() > deadlineMs) break;
    runs += 1;
    try {
      const { writes, faults } = await run(value);
      if (writes > 0 && faults > 0) effective += 1;
    } catch (cause) {
      throw new RandomRunError(`run ${runs} of seed ${seed} failed: ${fc.stringify(value)}`, { cause });
    }
  }
  console.log(`seed ${seed}: ${runs} runs, ${effective} of them with a write and a fault`);
  const needed = Math.max(minEffectiveRuns, Math.ceil(runs * minEffectiveShare));
  if (effective < needed) {
    throw new RandomRunError(
      `of ${runs} runs of seed ${seed} only ${effective} had a write and a fault, not ${needed}`,
    );
  }
}

/**
 * Returns a long plan with a random seed, and prints it. `<prefix>_MINUTES` sets the duration (default 10),
 * `<prefix>_SEED` repeats a run.
 */
export function nightlyPlan(
  prefix: string,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): RandomPlan & { readonly timeLimitMs: number } {
  const minutes = minutesOf(`${prefix}_MINUTES`, environment);
  const seed = Number(environment[`${prefix}_SEED`] ?? Math.floor(Math.random() * 2 ** 31));
  console.log(`To repeat this run: ${prefix}_SEED=${seed} ${prefix}_MINUTES=${minutes}`);
  return {
    seed,
    maxRuns: 10_000,
    minEffectiveRuns: Math.ceil(minutes),
    minEffectiveShare: 0.25,
    timeLimitMs: minutes * 60_000,
  };
}

/** Reads a duration in minutes. Default: 10. @throws RangeError unless it is a positive number */
export function minutesOf(name: string, environment: Readonly<Record<string, string | undefined>>): number {
  const minutes = Number(environment[name] ?? 10);
  if (!(minutes > 0 && Number.isFinite(minutes))) {
    throw new RangeError(`${name}: got "${environment[name]}", takes a positive number of minutes`);
  }
  return minutes;
}
