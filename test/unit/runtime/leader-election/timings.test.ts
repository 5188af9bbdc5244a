import { expect, test } from '@jest/globals';
import { checkedTimings, defaultTimings } from '../../../../src/runtime/leader-election/index.ts';
import { grantedSeconds } from '../../../../src/runtime/leader-election/timings.ts';

test("the defaults are client-go's, and fit", () => {
  expect(checkedTimings(defaultTimings)).toEqual({
    leaseDurationSeconds: 15,
    renewDeadlineSeconds: 10,
    retryPeriodSeconds: 2,
  });
});

test.each([
  // client-go may count from a second before the last renewal: then too the holder has stopped.
  [{ leaseDurationSeconds: 2, renewDeadlineSeconds: 1.2, retryPeriodSeconds: 0.3 }, 3],
  [{ leaseDurationSeconds: 3.5, renewDeadlineSeconds: 2.5, retryPeriodSeconds: 0.5 }, 4],
  [defaultTimings, 15],
])('%j are granted for %i whole seconds', (timings, seconds) => {
  expect(grantedSeconds(timings)).toBe(seconds);
});

test.each([
  [{ leaseDurationSeconds: 10 }, "leaseDurationSeconds: got 10, takes more than renewDeadlineSeconds's 10"],
  [{ renewDeadlineSeconds: 2.4 }, "renewDeadlineSeconds: got 2.4, takes more than 1.2 times retryPeriodSeconds's 2"],
  [{ retryPeriodSeconds: 0 }, 'retryPeriodSeconds: got 0, takes a number of seconds above 0'],
  [{ leaseDurationSeconds: Number.NaN }, 'leaseDurationSeconds: got NaN, takes a number of seconds above 0'],
  [{ renewDeadlineSeconds: Number.POSITIVE_INFINITY }, 'renewDeadlineSeconds: got Infinity'],
])('%j is refused', (timings, message) => {
  expect(() => checkedTimings({ ...defaultTimings, ...timings })).toThrow(message);
});

test('what is refused is named as the caller calls it', () => {
  const names = { leaseDurationSeconds: 'DURATION', renewDeadlineSeconds: 'DEADLINE', retryPeriodSeconds: 'PERIOD' };
  expect(() => checkedTimings({ ...defaultTimings, leaseDurationSeconds: 5 }, (timing) => names[timing])).toThrow(
    new RangeError("DURATION: got 5, takes more than DEADLINE's 10"),
  );
});
