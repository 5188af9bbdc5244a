import { describe, test } from '@jest/globals';

type Declare<Result> = (name: string, body: () => Result, timeoutMs?: number) => void;

const isLinux = process.platform === 'linux';

/**
 * For tests that need Linux (/proc, LD_PRELOAD). On other systems they are skipped, and the last line of a run counts
 * them. No other test is skipped: if a machine lacks something else, the test fails or the whole suite is skipped.
 */
export const testOnLinux: Declare<Promise<void>> = isLinux ? test : test.skip;
export const describeOnLinux: Declare<void> = isLinux ? describe : describe.skip;
