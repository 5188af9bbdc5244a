import type { Figures } from '../measurements.ts';

/** The external system of a turn. */
export interface External extends AsyncDisposable {
  /** The operator's settings for it. */
  readonly environment: Readonly<Record<string, string>>;
  /** Runs `work`, and may measure meanwhile. */
  during(work: () => Promise<void>): Promise<void>;
  /**
   * Returns the figures of the external system. Call this when the operator has stopped.
   *
   * @throws TurnError if the system does not hold exactly one item per object
   */
  figures(): Promise<Figures>;
}
