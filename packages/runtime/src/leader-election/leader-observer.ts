/**
 * Why a candidate could take the Lease. `absence`: no candidate had held it. `release`, `crash`, `expiry`: its holder
 * released it, crashed, or did not renew it in time. `ownClaim`: the response to the candidate's own acquisition was
 * lost.
 */
export type TakeoverReason = 'absence' | 'release' | 'crash' | 'expiry' | 'ownClaim';

/**
 * Why a leader's fence closed: the leader stopped (`stopped`), did not renew the Lease in time (`expiry`), or another
 * candidate holds the Lease (`taken`).
 */
export type FenceClosingReason = 'stopped' | 'expiry' | 'taken';

/** Receives the changes of leadership. */
export interface LeaderObserver {
  changed(isLeading: boolean): void;
  /** This process begins to lead. */
  tookOver?(reason: TakeoverReason): void;
  /** The fence of this process has closed. Called only if this process led. */
  fenceClosed?(reason: FenceClosingReason): void;
}
