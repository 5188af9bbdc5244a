/** How a Lease is kept and taken: the same for all its candidates. Defaults and meaning are client-go's. */
export interface LeaseTimings {
  /** After so many seconds without a renewal others may take the Lease. On the Lease stands what {@link grantedSeconds} makes of it. Default 15. */
  readonly leaseDurationSeconds: number;
  /** After so many seconds without a renewal the holder stops. Default 10. */
  readonly renewDeadlineSeconds: number;
  /** So many seconds are between two renewals. Default 2. */
  readonly retryPeriodSeconds: number;
}

/** client-go's own. */
export const defaultTimings: LeaseTimings = {
  leaseDurationSeconds: 15,
  renewDeadlineSeconds: 10,
  retryPeriodSeconds: 2,
};

/** A pause of a standby may take up to so many times its length, and a renewal has to fit in all the same. */
const jitterFactor = 1.2;

/** The pause, or up to a fifth more: candidates that began together do not go on together. */
export const jittered = (pauseMs: number): number => pauseMs * (1 + Math.random() * (jitterFactor - 1));

/** How coarsely client-go compares the times on a Lease. */
const clientGoSeconds = 1;

/**
 * For how long a renewal is said to hold, in seconds, on the Lease itself: the leaseDuration, as a whole number, because the
 * API takes no other, and long enough for candidates on client-go. Those compare what they see of a Lease in whole seconds
 * (LeaderElectionRecord's times are metav1.Time), and take two renewals of one second for one: they may begin to count up to
 * a second before the last renewal, and still must not have done before the holder has stopped.
 */
export const grantedSeconds = ({ leaseDurationSeconds, renewDeadlineSeconds }: LeaseTimings): number =>
  Math.ceil(Math.max(leaseDurationSeconds, renewDeadlineSeconds + clientGoSeconds));

/**
 * Checks the timings against each other: a holder must have stopped before others may take its Lease, and must have had
 * the time for another try.
 *
 * @param nameOf how a timing is called in what is thrown. Default: its own name.
 * @throws RangeError naming the two that don't fit, with their values.
 */
export function checkedTimings(
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
      `${nameOf('leaseDurationSeconds')}: got ${leaseDurationSeconds}, takes more than ${nameOf('renewDeadlineSeconds')}'s ${renewDeadlineSeconds}`,
    );
  }
  if (renewDeadlineSeconds <= retryPeriodSeconds * jitterFactor) {
    throw new RangeError(
      `${nameOf('renewDeadlineSeconds')}: got ${renewDeadlineSeconds}, takes more than ${jitterFactor} times ${nameOf('retryPeriodSeconds')}'s ${retryPeriodSeconds}`,
    );
  }
  return timings;
}
