import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';

/** How many plans a sample has. */
const size = 8;

/**
 * A number that changes with the commit, so that in time every plan of the sampled scenarios runs: `PERTURB_SAMPLE`, or
 * the commit's; 0 without git.
 */
export function sampleNumber(): number {
  const { PERTURB_SAMPLE } = process.env;
  if (PERTURB_SAMPLE !== undefined) return Number(PERTURB_SAMPLE);
  try {
    const commit = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: import.meta.dirname, stdio: 'pipe' });
    return Number.parseInt(commit.toString().slice(0, 8), 16);
  } catch {
    return 0;
  }
}

/** Chooses plans at random, but always the same ones for a number. */
export function sampleOf(plans: readonly string[], number: number, count = size): readonly string[] {
  const rank = (plan: string): string => createHash('sha256').update(`${number} ${plan}`).digest('hex');
  return plans.toSorted((one, other) => rank(one).localeCompare(rank(other))).slice(0, count);
}
