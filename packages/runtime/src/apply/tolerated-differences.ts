import { hash } from 'node:crypto';
import type { Difference } from './difference.ts';

/** The maximum number of objects. They take about 4 MB. */
const maxEntries = 16_384;

/** How long a rewritten field is tolerated. A webhook may have rewritten it, and the webhook may be removed later. */
const rewrittenToleranceMs = 60_000;
/** How long an addition to an atomic field is tolerated. It is usually a default of the server. */
const surplusToleranceMs = 3_600_000;

interface Entry {
  readonly digest: string;
  /** By performance.now. */
  readonly expiresAtMs: number;
}

/**
 * The differences that remained after the last apply of each object: the server's defaults within atomic fields, and
 * fields that a webhook rewrites. Another apply of an object with the same differences would change nothing.
 *
 * Entries are kept by uid; the least recently used ones are evicted.
 */
export class ToleratedDifferences {
  readonly #byUid = new Map<string, Entry>();

  /** Stores the differences between the desired object and the response to its apply. */
  record(uid: string, desired: unknown, differences: readonly Difference[]): void {
    this.#byUid.delete(uid);
    if (differences.length === 0) return;
    const digest = digestOf(desired, differences);
    const isRewritten = differences.some(({ isSurplus }) => !isSurplus);
    const toleranceMs = isRewritten ? rewrittenToleranceMs : surplusToleranceMs;
    this.#byUid.set(uid, { digest, expiresAtMs: performance.now() + toleranceMs });
    if (this.#byUid.size <= maxEntries) return;
    const [oldest] = this.#byUid.keys();
    if (oldest !== undefined) this.#byUid.delete(oldest);
  }

  /** True if the last apply of the same desired object left the same differences, and it is not too long ago. */
  has(uid: string, desired: unknown, differences: readonly Difference[]): boolean {
    const entry = this.#byUid.get(uid);
    if (entry === undefined || entry.digest !== digestOf(desired, differences)) return false;
    if (performance.now() >= entry.expiresAtMs) return false;
    // Move the entry to the end: a Map iterates in insertion order.
    this.#byUid.delete(uid);
    this.#byUid.set(uid, entry);
    return true;
  }
}

function digestOf(desired: unknown, differences: readonly Difference[]): string {
  return hash('sha256', JSON.stringify([desired, differences]), 'base64');
}
