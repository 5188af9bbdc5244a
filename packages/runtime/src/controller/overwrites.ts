import { changedBy, type Modified, undoes } from './sent-fields.ts';

/** How many corrections in a row are made without a pause: a person, or an autoscaler, may try a few times. */
const promptCorrections = 3;
const firstPauseMs = 1000;
const maxPauseMs = 60 * 60_000;

/** If nobody overwrites an object for this long after the last pause, the next correction is immediate again. */
const calmMs = 10 * 60_000;

/**
 * Limits the memory. A conflict is detected only if fewer other objects are written between two overwrites of one
 * object.
 */
const maxObjects = 1000;

interface Written {
  /** The fields that the last write changed. */
  readonly sent: object;
  /** How many writes in a row were overwritten. */
  times: number;
  /** When the overwritten last write is corrected, by `performance.now`. Undefined: nobody has overwritten it. */
  correctedAtMs: number | undefined;
  /** When the previous overwritten write was corrected. */
  readonly earlierAtMs: number;
}

/**
 * Slows down two writers that overwrite each other's changes. When another client's change undoes what a key has
 * written, the key's reconcile writes it again. After a few corrections in a row the key waits for a second. Each
 * further time it waits twice as long, up to an hour. Changes that undo nothing, and changes of other objects, enqueue
 * the key at once.
 */
export class Overwrites {
  /** By key and uid, least recently written first. */
  readonly #written = new Map<string, Written>();

  /** A write of the key has changed an object. */
  wrote(key: string, delta: Modified, body: object): void {
    const id = idOf(key, delta);
    const { times = 0, correctedAtMs, earlierAtMs = 0 } = this.#written.get(id) ?? {};
    this.#written.delete(id);
    const [oldest] = this.#written.keys();
    if (oldest !== undefined && this.#written.size >= maxObjects) this.#written.delete(oldest);
    const sent = changedBy(delta, body);
    this.#written.set(id, { sent, times, correctedAtMs: undefined, earlierAtMs: correctedAtMs ?? earlierAtMs });
  }

  /**
   * How long to wait, in milliseconds, before another client's change enqueues the key.
   *
   * @returns also whether it is the first pause
   */
  pause(key: string, delta: Modified, nowMs: number): { readonly pauseMs: number; readonly isFirst: boolean } {
    const written = this.#written.get(idOf(key, delta));
    const correctedAtMs = written?.correctedAtMs;
    if (written === undefined || !undoes(delta, written.sent, correctedAtMs !== undefined))
      return { pauseMs: 0, isFirst: false };
    // One write corrects several changes.
    if (correctedAtMs !== undefined) return { pauseMs: Math.max(0, correctedAtMs - nowMs), isFirst: false };
    written.times = nowMs - written.earlierAtMs > calmMs ? 1 : written.times + 1;
    const exponent = written.times - promptCorrections - 1;
    const pauseMs = exponent < 0 ? 0 : Math.min(firstPauseMs * 2 ** exponent, maxPauseMs);
    written.correctedAtMs = nowMs + pauseMs;
    return { pauseMs, isFirst: exponent === 0 };
  }
}

const idOf = (key: string, { object }: Modified): string => `${object.metadata.uid} ${key}`;
