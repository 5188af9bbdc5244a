import { LinkedList } from '../queue/linked-list.ts';
import {
  type Activity,
  type ActivityQuery,
  type ExplainQuery,
  type Explanation,
  explainActivity,
  explainObject,
  type RecordedController,
} from './explanation.ts';
import type { ControllerObserver, ObservedController, OperatorObserver } from './observer.ts';
import { causeBytesOf, isOnlyStatus, RecordedKey, RecordedReconcile } from './reconcile-record.ts';

const defaultMaxBytes = 4 * 1024 * 1024;

/**
 * Remembers the last reconciles of each key: why they ran, what they sent, how they ended. Bounded: the records of the key
 * that was reconciled least recently go first. Keeps names, reasons and codes, never values of objects or messages of errors.
 */
export class FlightRecorder implements OperatorObserver {
  readonly #maxBytes: number;
  readonly #controllers = new Map<string, RecordedController & { readonly keys: Map<string, RecordedKey> }>();
  /** Least recently reconciled first. */
  readonly #byActivity = new LinkedList<RecordedKey>();
  #bytes = 0;
  readonly #onResized = (recorded: RecordedKey, bytes: number): void => this.#resized(recorded, bytes);

  /** @param options.maxBytes an estimate of the memory that the records may take. Default: 4 MB. */
  constructor({ maxBytes = defaultMaxBytes }: { readonly maxBytes?: number } = {}) {
    this.#maxBytes = maxBytes;
  }

  /** An estimate of the memory that the records take. */
  get bytes(): number {
    return this.#bytes;
  }

  controller(controller: ObservedController): ControllerObserver {
    const keys = new Map<string, RecordedKey>();
    this.#controllers.set(controller.name, { controller, keys });
    return {
      filtered: (key, cause) => {
        const recorded = keys.get(key);
        if (recorded === undefined || (cause.type === 'delta' && isOnlyStatus(cause))) return;
        const bytes = causeBytesOf(cause) - causeBytesOf(recorded.filtered);
        recorded.filtered = cause;
        recorded.filteredAtMs = performance.now();
        this.#count(recorded, bytes);
      },
      started: (key, startedAtMs, queued, retries) => {
        const recorded = keys.get(key) ?? this.#add(key, keys);
        const reconcile = new RecordedReconcile(recorded, startedAtMs, queued, retries);
        recorded.running = reconcile;
        this.#onResized(recorded, reconcile.countedBytes);
        return reconcile;
      },
    };
  }

  controllerRemoved(name: string): void {
    const removed = this.#controllers.get(name);
    this.#controllers.delete(name);
    for (const recorded of removed?.keys.values() ?? []) this.#remove(recorded);
  }

  /** Explains an object. Undefined if no controller reconciles its kind. */
  explain(query: ExplainQuery): Explanation | undefined {
    return explainObject(this.#controllers.values(), query);
  }

  /** Explains what the operator did in a namespace, as far as it remembers. Searches all records. */
  explainActivity(query: ActivityQuery): Activity {
    return explainActivity(this.#controllers.values(), query);
  }

  /** The records of a key have changed by this many bytes. The key becomes the most recently reconciled one. */
  #resized(recorded: RecordedKey, bytes: number): void {
    // The controller was removed while it reconciled the key.
    if (recorded.keys.get(recorded.key) !== recorded) return;
    this.#byActivity.remove(recorded);
    this.#byActivity.push(recorded);
    this.#count(recorded, bytes);
  }

  /** Drops the records of the least recently reconciled keys, but not of one whose reconcile runs: it may be stuck. */
  #count(changed: RecordedKey, bytes: number): void {
    changed.bytes += bytes;
    this.#bytes += bytes;
    let kept: RecordedKey | undefined;
    for (let oldest = this.#byActivity.first; this.#bytes > this.#maxBytes; oldest = this.#byActivity.first) {
      if (oldest === undefined || oldest === kept) return;
      if (oldest.running === undefined) this.#remove(oldest);
      else {
        kept ??= oldest;
        this.#byActivity.remove(oldest);
        this.#byActivity.push(oldest);
      }
    }
  }

  #add(key: string, keys: Map<string, RecordedKey>): RecordedKey {
    const recorded = new RecordedKey(key, keys, this.#onResized);
    keys.set(key, recorded);
    this.#bytes += recorded.bytes;
    this.#byActivity.push(recorded);
    return recorded;
  }

  #remove(recorded: RecordedKey): void {
    recorded.keys.delete(recorded.key);
    this.#byActivity.remove(recorded);
    this.#bytes -= recorded.bytes;
  }
}
