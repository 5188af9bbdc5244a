import { hash } from 'node:crypto';
import type { Difference } from './difference.ts';

/** Of so many objects at the most an answer is remembered: about 4 MB. */
const maxRemembered = 16_384;

/** How long a difference that an apply has left is not tried again: it may be a webhook's, which may go. */
const retryRewrittenAfterMs = 60_000;
/** The same of what is added to an atomic field: most often a default of the server. */
const retrySurplusAfterMs = 3_600_000;

interface Answer {
  readonly digest: string;
  /** By performance.now. */
  readonly retryAtMs: number;
}

/**
 * What the API server has left different in its answers to applies: its defaults within atomic fields, and what a webhook
 * rewrites. An object that still differs in just that needs no other apply.
 *
 * It is remembered by the object's uid, of those that were asked for last.
 */
export class Answers {
  readonly #byUid = new Map<string, Answer>();

  /** Keeps what differs in the answer to an apply. */
  remember(uid: string, wanted: unknown, differences: readonly Difference[]): void {
    this.#byUid.delete(uid);
    if (differences.length === 0) return;
    const digest = digestOf(wanted, differences);
    const isRewritten = differences.some(({ isSurplus }) => !isSurplus);
    const retryAfterMs = isRewritten ? retryRewrittenAfterMs : retrySurplusAfterMs;
    this.#byUid.set(uid, { digest, retryAtMs: performance.now() + retryAfterMs });
    if (this.#byUid.size <= maxRemembered) return;
    const [oldest] = this.#byUid.keys();
    if (oldest !== undefined) this.#byUid.delete(oldest);
  }

  /** Whether the last answer, to an apply of the same, had the same differences. */
  isExpected(uid: string, wanted: unknown, differences: readonly Difference[]): boolean {
    const answer = this.#byUid.get(uid);
    if (answer === undefined || answer.digest !== digestOf(wanted, differences)) return false;
    if (performance.now() >= answer.retryAtMs) return false;
    // A Map goes through its keys in the order in which they were set.
    this.#byUid.delete(uid);
    this.#byUid.set(uid, answer);
    return true;
  }
}

function digestOf(wanted: unknown, differences: readonly Difference[]): string {
  return hash('sha256', JSON.stringify([wanted, differences]), 'base64');
}
