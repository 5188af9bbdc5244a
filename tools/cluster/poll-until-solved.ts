import { setTimeout as delay } from 'node:timers/promises';
import { ClusterError } from './errors.ts';

export interface PollOptions {
  readonly timeoutMs: number;
  /** Default: 100. */
  readonly pollMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Polls until `findProblem` returns undefined.
 *
 * @param findProblem returns what is wrong and where to look
 * @throws ClusterError with the last problem after the timeout; the signal's reason
 */
export async function pollUntilSolved(
  findProblem: () => Promise<string | undefined>,
  { timeoutMs, pollMs = 100, signal }: PollOptions,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  for (;;) {
    const problem = await findProblem();
    if (problem === undefined) return;
    if (performance.now() > deadlineMs) throw new ClusterError(`after ${timeoutMs / 1000} s, ${problem}`);
    await delay(pollMs, undefined, { signal });
  }
}
