import type { Delta } from '../cache/index.ts';
import type { KubeObject } from '../kind/index.ts';
import { undoes } from './sent-fields.ts';

/** How many corrections in a row are made at once: a person, or an autoscaler, may try a few times. */
const promptCorrections = 3;
const firstPauseMs = 1000;
const maxPauseMs = 60 * 60_000;

/** An object that nobody has overwritten for this long, after the last pause, is corrected at once again. */
const calmMs = 10 * 60_000;

/** Limits the memory. A conflict is noticed only while fewer other objects are written between two of its writes. */
const maxObjects = 1000;

interface Written {
  readonly key: string;
  /** What was sent last. */
  body: object;
  times: number;
  /** When the last overwrite is corrected, by `performance.now`. */
  correctedAtMs: number;
}

/**
 * Makes two writers pause who correct each other: each change of a field that a key has written, to another value, enqueues the key, whose
 * reconcile writes it again. After a few corrections in a row the key waits for a second, and twice as long each further time, up to an
 * hour. Changes of other fields, and of other objects, enqueue it at once.
 */
export class Overwrites {
  /** By uid; those that were written last are the last. */
  readonly #written = new Map<string, Written>();

  /** A write of the key has changed an object. */
  wrote(key: string, { metadata }: KubeObject, body: object): void {
    const known = this.#written.get(metadata.uid);
    this.#written.delete(metadata.uid);
    const [oldest] = this.#written.keys();
    if (oldest !== undefined && this.#written.size >= maxObjects) this.#written.delete(oldest);
    this.#written.set(metadata.uid, { times: 0, correctedAtMs: 0, ...(known?.key === key && known), key, body });
  }

  /**
   * How long to wait, in milliseconds, before the key is enqueued for a change that another client has made.
   *
   * @returns also whether it is the first pause
   */
  pause(key: string, delta: Delta<KubeObject>, nowMs: number): { readonly pauseMs: number; readonly isFirst: boolean } {
    const written = this.#written.get(delta.object.metadata.uid);
    if (written?.key !== key || !undoes(delta, written.body)) return { pauseMs: 0, isFirst: false };
    if (nowMs - written.correctedAtMs > calmMs) written.times = 0;
    written.times += 1;
    const exponent = written.times - promptCorrections - 1;
    const pauseMs = exponent < 0 ? 0 : Math.min(firstPauseMs * 2 ** exponent, maxPauseMs);
    written.correctedAtMs = nowMs + pauseMs;
    return { pauseMs, isFirst: exponent === 0 };
  }
}
