import type { ControllerObserver, ObservedController, OperatorObserver } from '../observer/operator-observer.ts';
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
import { cutCause, type ReconcileRecord, RecordedReconcile, Weight } from './reconcile-record.ts';
import { estimateBytes, RecordedKey } from './recorded-key.ts';

/** V8 collects garbage late: the peak of the operator's memory grows by up to twice as much. */
const defaultMaxBytes = 3 * 1024 * 1024;

/**
 * Remembers the last reconciles of each key: why they ran, what they sent, how they ended. Keeps names, reasons and codes, never values of
 * objects or messages of errors.
 *
 * Bounded, whatever users name and however many objects they create: at most 5 records of a key and 20 steps of a record, with texts of at
 * most 500 characters. When all take more than `maxBytes`, the least recently reconciled key is evicted, unless it is being reconciled. A
 * reconcile of an unrecorded key that sent nothing evicts nothing: a resync of many objects does not displace what was done.
 */
export class FlightRecorder implements OperatorObserver {
  readonly #controllers = new Map<string, RecordedController & { readonly keys: Map<string, RecordedKey> }>();
  readonly #maxBytes: number;
  /** The keys that have records, those that were reconciled least recently first. */
  readonly #recorded = new LinkedList<RecordedKey>();
  #bytes = 0;

  /**
   * @param options.maxBytes how much of V8's heap the records may take by an estimate, which is rather too high. Reconciles that run do not
   * count. Default: 3 MB.
   */
  constructor({ maxBytes = defaultMaxBytes }: { readonly maxBytes?: number } = {}) {
    this.#maxBytes = maxBytes;
  }

  /** An estimate of how many bytes of V8's heap the records take. */
  get bytes(): number {
    return this.#bytes;
  }

  controller(controller: ObservedController): ControllerObserver {
    const keys = new Map<string, RecordedKey>();
    this.#controllers.set(controller.name, { controller, keys });
    return {
      filtered: (key, cause) => {
        const recorded = keys.get(key);
        if (recorded === undefined) return;
        recorded.filtered = cutCause(cause);
        recorded.filteredAtMs = performance.now();
        if (recorded.countedBytes > 0) this.#count(recorded);
      },
      started: (key, startedAtMs, queued, retries) => {
        const recorded = keys.get(key) ?? new RecordedKey(key, keys);
        keys.set(key, recorded);
        recorded.running = new RecordedReconcile(startedAtMs, queued, retries, (record) =>
          this.#ended(recorded, record),
        );
        return recorded.running;
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

  #ended(recorded: RecordedKey, record: ReconcileRecord): void {
    recorded.ended(record);
    const { key, keys } = recorded;
    const isRemoved = keys.get(key) !== recorded;
    if (isRemoved) return;
    const isNew = recorded.countedBytes === 0;
    if (isNew && record.weight === Weight.minor && this.#bytes + estimateBytes(recorded) > this.#maxBytes) {
      keys.delete(key);
      return;
    }
    if (!isNew) this.#recorded.remove(recorded);
    this.#recorded.push(recorded);
    this.#count(recorded);
  }

  /** Counts what a key takes now, and evicts others if that is too much. */
  #count(recorded: RecordedKey): void {
    const bytes = estimateBytes(recorded);
    this.#bytes += bytes - recorded.countedBytes;
    recorded.countedBytes = bytes;
    while (this.#bytes > this.#maxBytes && this.#evictOldest());
  }

  /** Returns false if all are being reconciled. Those stay, because `explain` reports reconciles that are stuck. */
  #evictOldest(): boolean {
    let oldest = this.#recorded.first;
    while (oldest?.running !== undefined) oldest = oldest.next;
    if (oldest !== undefined) this.#remove(oldest);
    return oldest !== undefined;
  }

  #remove(recorded: RecordedKey): void {
    recorded.keys.delete(recorded.key);
    if (recorded.countedBytes === 0) return;
    this.#recorded.remove(recorded);
    this.#bytes -= recorded.countedBytes;
  }
}
