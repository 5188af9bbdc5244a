/**
 * Why a candidate could take the Lease. Nobody had it yet (`absence`); its holder released it (`release`), crashed (`crash`) or did not
 * renew it in time (`expiry`); the response to its own acquisition was lost (`ownClaim`).
 */
export type TakeoverReason = 'absence' | 'release' | 'crash' | 'expiry' | 'ownClaim';

/** Why a leader's fence closed: it stopped (`stopped`), did not renew the Lease in time (`expiry`), or another candidate has it (`taken`). */
export type FenceClosingReason = 'stopped' | 'expiry' | 'taken';

/** Receives the changes of leadership. */
export interface LeaderObserver {
  changed(isLeading: boolean): void;
  /** This process begins to lead. */
  tookOver?(reason: TakeoverReason): void;
  /** The fence of this process, which led, has closed. */
  fenceClosed?(reason: FenceClosingReason): void;
}
