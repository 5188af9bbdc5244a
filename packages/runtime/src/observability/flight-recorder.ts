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

/** The peak of the process's memory grows by up to twice as much, because V8 collects garbage late. */
const defaultMaxBytes = 3 * 1024 * 1024;

/**
 * Records the last reconciles of each key: why they ran, what they sent, how they ended. Keeps names, reasons and
 * codes, never values of objects or messages of errors.
 *
 * The memory is bounded, whatever names users choose and however many objects they create. A key has at most 5 records,
 * a record at most 20 steps, and a text at most 500 characters. When all records take more than `maxBytes`, the least
 * recently reconciled key is evicted, unless it is being reconciled. A no-op reconcile of an unrecorded key evicts
 * nothing, so a resync of many objects does not displace records of changes.
 */
export class FlightRecorder implements OperatorObserver {
  readonly #controllers = new Map<string, RecordedController & { readonly keys: Map<string, RecordedKey> }>();
  readonly #maxBytes: number;
  /** The keys that have records, least recently reconciled first. */
  readonly #recorded = new LinkedList<RecordedKey>();
  #bytes = 0;

  /**
   * @param options.maxBytes the estimated maximum size of the records in V8's heap. The estimate is rather too high.
   *   Running reconciles do not count. Default: 3 MB.
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

  /** Explains what the operator did in a namespace, from the recorded reconciles. Searches all records. */
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

  /** Updates the size of a key's records, and evicts other keys if the total is too large. */
  #count(recorded: RecordedKey): void {
    const bytes = estimateBytes(recorded);
    this.#bytes += bytes - recorded.countedBytes;
    recorded.countedBytes = bytes;
    while (this.#bytes > this.#maxBytes && this.#evictOldest());
  }

  /** Returns false if all keys are being reconciled. These stay, because `explain` reports stuck reconciles. */
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
