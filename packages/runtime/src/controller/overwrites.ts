import { changedBy, type Modified, undoes } from './sent-fields.ts';

/** How many corrections in a row are made at once: a person, or an autoscaler, may try a few times. */
const promptCorrections = 3;
const firstPauseMs = 1000;
const maxPauseMs = 60 * 60_000;

/** An object that nobody has overwritten for this long, after the last pause, is corrected at once again. */
const calmMs = 10 * 60_000;

/** Limits the memory. A conflict is noticed only while fewer other objects are written between two of its writes. */
const maxObjects = 1000;

interface Written {
  /** What the last write has changed. */
  readonly sent: object;
  /** How many writes in a row were overwritten. */
  times: number;
  /** When the overwriting of the last write is corrected, by `performance.now`. Undefined: it was not overwritten. */
  correctedAtMs: number | undefined;
  /** When the overwriting of an earlier one was. */
  readonly earlierAtMs: number;
}

/**
 * Makes two writers pause who correct each other: when a change undoes what a key has written, its reconcile writes it again. After a few
 * corrections in a row the key waits for a second, and twice as long each further time, up to an hour. Changes that undo nothing, and changes of
 * other objects, enqueue it at once.
 */
export class Overwrites {
  /** By key and uid; those that were written last are the last. */
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
   * How long to wait, in milliseconds, before the key is enqueued for a change that another client has made.
   *
   * @returns also whether it is the first pause
   */
  pause(key: string, delta: Modified, nowMs: number): { readonly pauseMs: number; readonly isFirst: boolean } {
    const written = this.#written.get(idOf(key, delta));
    const correctedAtMs = written?.correctedAtMs;
    if (written === undefined || !undoes(delta, written.sent, correctedAtMs !== undefined))
      return { pauseMs: 0, isFirst: false };
    // Several changes are corrected by one write.
    if (correctedAtMs !== undefined) return { pauseMs: Math.max(0, correctedAtMs - nowMs), isFirst: false };
    written.times = nowMs - written.earlierAtMs > calmMs ? 1 : written.times + 1;
    const exponent = written.times - promptCorrections - 1;
    const pauseMs = exponent < 0 ? 0 : Math.min(firstPauseMs * 2 ** exponent, maxPauseMs);
    written.correctedAtMs = nowMs + pauseMs;
    return { pauseMs, isFirst: exponent === 0 };
  }
}

const idOf = (key: string, { object }: Modified): string => `${object.metadata.uid} ${key}`;
