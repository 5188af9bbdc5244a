import { validateTimings } from '@echoperator/runtime/leader-election';
import { expect, test } from '@jest/globals';
import { defaultTimings, publishedDurationSeconds } from '../../../../packages/runtime/src/leader-election/timings.ts';

test("the defaults are client-go's, and valid", () => {
  expect(validateTimings(defaultTimings)).toEqual({
    leaseDurationSeconds: 15,
    renewDeadlineSeconds: 10,
    retryPeriodSeconds: 2,
  });
});

test.each([
  // client-go may start counting a second before the last renewal: even then the holder has stopped.
  [{ leaseDurationSeconds: 2, renewDeadlineSeconds: 1.2, retryPeriodSeconds: 0.3 }, 3],
  [{ leaseDurationSeconds: 3.5, renewDeadlineSeconds: 2.5, retryPeriodSeconds: 0.5 }, 4],
  [defaultTimings, 15],
])('the Lease states for %j a duration of %i s', (timings, seconds) => {
  expect(publishedDurationSeconds(timings)).toBe(seconds);
});

test.each([
  [{ leaseDurationSeconds: 10 }, "leaseDurationSeconds: got 10, takes more than renewDeadlineSeconds's 10"],
  [{ renewDeadlineSeconds: 2.4 }, "renewDeadlineSeconds: got 2.4, takes more than 1.2 times retryPeriodSeconds's 2"],
  [{ retryPeriodSeconds: 0 }, 'retryPeriodSeconds: got 0, takes a number of seconds above 0'],
  [{ leaseDurationSeconds: Number.NaN }, 'leaseDurationSeconds: got NaN, takes a number of seconds above 0'],
  [{ renewDeadlineSeconds: Number.POSITIVE_INFINITY }, 'renewDeadlineSeconds: got Infinity'],
])('%j is refused', (timings, message) => {
  expect(() => validateTimings({ ...defaultTimings, ...timings })).toThrow(message);
});

test('errors use the names that the caller gives', () => {
  const names = { leaseDurationSeconds: 'DURATION', renewDeadlineSeconds: 'DEADLINE', retryPeriodSeconds: 'PERIOD' };
  expect(() => validateTimings({ ...defaultTimings, leaseDurationSeconds: 5 }, (timing) => names[timing])).toThrow(
    new RangeError("DURATION: got 5, takes more than DEADLINE's 10"),
  );
});
