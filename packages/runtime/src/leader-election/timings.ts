/** The times of a Lease. All candidates should use the same. Meaning and defaults are client-go's. */
export interface LeaseTimings {
  /**
   * How long other candidates wait after the last renewal that they observed, in seconds. Default 15. The Lease states
   * {@link publishedDurationSeconds}.
   */
  readonly leaseDurationSeconds: number;
  /** How long the holder leads after its last renewal, in seconds. Default 10. */
  readonly renewDeadlineSeconds: number;
  /** The time between two renewals, in seconds. Default 2. */
  readonly retryPeriodSeconds: number;
}

/** client-go's defaults: 15, 10 and 2 seconds. */
export const defaultTimings: LeaseTimings = {
  leaseDurationSeconds: 15,
  renewDeadlineSeconds: 10,
  retryPeriodSeconds: 2,
};

/**
 * The longest pause between two attempts, in retry periods. The renew deadline is longer, so that a second attempt is
 * possible.
 */
const jitterFactor = 1.2;

/** Adds up to 20 % jitter, so that candidates that started together do not stay in step. */
export const addJitter = (pauseMs: number): number => pauseMs * (1 + Math.random() * (jitterFactor - 1));

/** The resolution with which client-go compares the times on a Lease. */
const clientGoResolutionSeconds = 1;

/**
 * The duration that the Lease states, in whole seconds, because the API allows no fractions. It is long enough for
 * candidates on client-go. Those compare times in whole seconds (LeaderElectionRecord has metav1.Time), so two renewals
 * in one second look like one, and a candidate may start counting up to a second early. Even then the holder must have
 * stopped before another candidate takes the Lease.
 */
export const publishedDurationSeconds = ({ leaseDurationSeconds, renewDeadlineSeconds }: LeaseTimings): number =>
  Math.ceil(Math.max(leaseDurationSeconds, renewDeadlineSeconds + clientGoResolutionSeconds));

/**
 * Validates the timings: a holder must stop before others may take its Lease, and must have time for a second renewal
 * attempt.
 *
 * @param nameOf the name of a timing in error messages. Default: the name of the field.
 * @returns the timings.
 * @throws RangeError with the names and values of the two timings that contradict each other.
 */
export function validateTimings(
  timings: LeaseTimings,
  nameOf: (timing: keyof LeaseTimings) => string = (timing) => timing,
): LeaseTimings {
  const { leaseDurationSeconds, renewDeadlineSeconds, retryPeriodSeconds } = timings;
  for (const timing of ['leaseDurationSeconds', 'renewDeadlineSeconds', 'retryPeriodSeconds'] as const) {
    const seconds = timings[timing];
    if (!(Number.isFinite(seconds) && seconds > 0)) {
      throw new RangeError(`${nameOf(timing)}: got ${seconds}, takes a number of seconds above 0`);
    }
  }
  if (leaseDurationSeconds <= renewDeadlineSeconds) {
    throw new RangeError(
      `${nameOf('leaseDurationSeconds')}: got ${leaseDurationSeconds}, ` +
        `takes more than ${nameOf('renewDeadlineSeconds')}'s ${renewDeadlineSeconds}`,
    );
  }
  if (renewDeadlineSeconds <= retryPeriodSeconds * jitterFactor) {
    throw new RangeError(
      `${nameOf('renewDeadlineSeconds')}: got ${renewDeadlineSeconds}, ` +
        `takes more than ${jitterFactor} times ${nameOf('retryPeriodSeconds')}'s ${retryPeriodSeconds}`,
    );
  }
  return timings;
}
