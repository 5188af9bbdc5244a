import { expect, jest, test } from '@jest/globals';
import { PausableTimeLimit } from '../../../../packages/runtime/src/plan/pausable-time-limit.ts';

test('the time stands still while a throttle waits, also while several wait at once', async () => {
  jest.useFakeTimers();
  try {
    using limit = new PausableTimeLimit(1000);
    const [one, other] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    jest.advanceTimersByTime(600);
    const waits = [limit.excluding(() => one.promise), limit.excluding(() => other.promise)];
    jest.advanceTimersByTime(60_000);
    one.resolve();
    await waits[0];
    jest.advanceTimersByTime(60_000);
    expect(limit.signal.aborted).toBe(false);
    other.resolve();
    await waits[1];
    jest.advanceTimersByTime(399);
    expect(limit.signal.aborted).toBe(false);
    jest.advanceTimersByTime(1);
    expect(limit.signal.reason).toMatchObject({ name: 'TimeoutError' });
  } finally {
    jest.useRealTimers();
  }
});
