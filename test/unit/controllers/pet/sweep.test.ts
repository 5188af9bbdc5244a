import { describe, expect, test } from '@jest/globals';
import { Sweep } from '../../../../src/controllers/pet/sweep.ts';
import type { ObjectKey } from '../../../../src/runtime/index.ts';

const key = { namespace: 'default', name: 'thor' };

/** Runs one until it has taken stock so often; how it went. */
async function run(times: number, take: (turn: number, sweep: Sweep) => readonly ObjectKey[], everyMs = 1) {
  const stop = new AbortController();
  const failures: unknown[] = [];
  const enqueued: ObjectKey[] = [];
  let turns = 0;
  const sweep: Sweep = new Sweep({
    take: async () => {
      turns += 1;
      if (turns === times) stop.abort();
      return take(turns, sweep);
    },
    everyMs,
    retryAfterMs: 1000,
    failed: (error) => failures.push(error),
  });
  const startedAtMs = performance.now();
  await sweep.run((each, { priority }) => priority === 'low' && enqueued.push(each), stop.signal);
  return { failures, enqueued, tookMs: performance.now() - startedAtMs };
}

describe('a sweep', () => {
  test('takes stock at once, then again and again, and has what it found reconciled when there is time', async () => {
    const { enqueued, failures } = await run(3, () => [key]);
    expect(enqueued).toEqual([key, key, key]);
    expect(failures).toEqual([]);
  });

  test('tells of a failure, and goes on', async () => {
    const { enqueued, failures } = await run(2, (turn) => {
      if (turn === 1) throw new Error('cut');
      return [key];
    });
    expect(failures).toEqual([new Error('cut')]);
    expect(enqueued).toEqual([key]);
  });

  test('comes early where it is asked for, also while it runs, but not at once', async () => {
    const { tookMs } = await run(
      2,
      (turn, sweep) => {
        if (turn === 1) sweep.ask();
        return [];
      },
      3_600_000,
    );
    expect(tookMs).toBeGreaterThan(900);
    expect(tookMs).toBeLessThan(30_000);
  });
});
