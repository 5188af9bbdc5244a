/**
 * Tells a standby that the process that holds a Lease has ended. A candidate publishes a description of its process on
 * the Lease; only the detector reads it.
 */
export interface CrashDetector {
  /** The annotation of the Lease that holds the description. It must be the same for all candidates for a Lease. */
  readonly annotation: string;
  /**
   * Describes this process to other candidates. A leader calls it once.
   *
   * @param holderIdentity this candidate's identity on the Lease.
   * @returns the description; undefined if the end of this process could never be proven.
   * @throws the signal's reason.
   */
  describeProcess(holderIdentity: string, signal: AbortSignal): Promise<string | undefined>;
  /**
   * Resolves when it is proven that the described process has ended. Without proof it never resolves.
   *
   * @param holderIdentity the current holder of the Lease. A description that names another holder is not proof of
   *   anything.
   * @throws the signal's reason.
   */
  waitForEnd(holderIdentity: string, description: string, signal: AbortSignal): Promise<void>;
}
