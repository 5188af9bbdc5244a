/** The even paces at which Echos are created. */

/** In percent of the highest rate of the slower of the Go and Rust peers. */
export const pacePercents = [30, 60, 90] as const;
export type PacePercent = (typeof pacePercents)[number];

/** Echos per second of each pace. */
export type Paces = Readonly<Partial<Record<PacePercent, number>>>;

/** @param slowerRate undefined if neither peer takes part: there are no paces then */
export const pacesOf = (slowerRate: number | undefined): Paces =>
  slowerRate === undefined
    ? {}
    : Object.fromEntries(
        pacePercents.map((percent) => [percent, Math.max(1, Math.round((slowerRate * percent) / 100))]),
      );
