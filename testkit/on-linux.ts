import { describe, test } from '@jest/globals';

type Declare<Result> = (name: string, body: () => Result, timeoutMs?: number) => void;

const isLinux = process.platform === 'linux';

/**
 * For tests of what Linux alone has (/proc, preloaded libraries). Elsewhere they are skipped, and the last line of a run
 * says how many. No other test is skipped: what a machine lacks fails, or leaves out its whole suite.
 */
export const testOnLinux: Declare<Promise<void>> = isLinux ? test : test.skip;
export const describeOnLinux: Declare<void> = isLinux ? describe : describe.skip;
