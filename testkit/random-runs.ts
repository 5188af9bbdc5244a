import fc from 'fast-check';

/** What a run has done. */
export interface RunEffects {
  readonly writes: number;
  /** Those that have struck, not those that were only switched on. */
  readonly faults: number;
}

export interface RandomPlan {
  /** Decides what the runs do, and when. */
  readonly seed: number;
  readonly maxRuns: number;
  /** How many runs must have made at least one write and one fault. */
  readonly minEffectiveRuns: number;
  /** No run begins later than this, in milliseconds after the first. Default: no limit. */
  readonly timeLimitMs?: number;
}

/** A run at random has failed. The message says how to repeat it. */
export class RandomRunError extends Error {
  override readonly name = 'RandomRunError';
}

/**
 * Does the runs one after the other. Each is awaited to its end, also beyond the time limit, so that every failure counts
 * and nothing goes on afterwards. A failed run is not shrunk: the world goes on from run to run.
 *
 * @throws RandomRunError if a run fails, or if too few have had an effect.
 */
export async function runAtRandom<T>(
  plan: RandomPlan,
  arbitrary: fc.Arbitrary<T>,
  run: (value: T) => Promise<RunEffects>,
  elapsedMs: () => number = () => performance.now(),
): Promise<void> {
  const { seed, maxRuns, minEffectiveRuns, timeLimitMs = Number.POSITIVE_INFINITY } = plan;
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
  if (effective < minEffectiveRuns) {
    throw new RandomRunError(
      `of ${runs} runs of seed ${seed} only ${effective} have made a write and a fault, not ${minEffectiveRuns}`,
    );
  }
}

/**
 * A long plan with a seed of its own. `<prefix>_MINUTES` is how long it takes (default 10), `<prefix>_SEED` repeats a run.
 */
export function nightlyPlan(
  prefix: string,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): RandomPlan & { readonly timeLimitMs: number } {
  const minutes = Number(environment[`${prefix}_MINUTES`] ?? 10);
  const seed = Number(environment[`${prefix}_SEED`] ?? Math.floor(Math.random() * 2 ** 31));
  console.log(`at random: ${prefix}_SEED=${seed} ${prefix}_MINUTES=${minutes}`);
  return { seed, maxRuns: 10_000, minEffectiveRuns: Math.ceil(minutes), timeLimitMs: minutes * 60_000 };
}
