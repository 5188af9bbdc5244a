import type { ControllerObserver, ObservedController, OperatorObserver } from '../observer/operator-observer.ts';
import {
  type Activity,
  type ActivityQuery,
  type ExplainQuery,
  type Explanation,
  explainActivity,
  explainObject,
  type RecordedController,
} from './explanation.ts';
import { RecordedReconcile } from './reconcile-record.ts';
import { RecordLog } from './record-log.ts';
import { RecordedKey } from './recorded-key.ts';

/** With the code, and what running reconciles have recorded, the peak of the operator's memory grows by up to 4 MB. */
const defaultMaxBytes = 3 * 1024 * 1024;

/**
 * How many reconciles that have ended are written at once. One that is written alone, between other work, takes about four times as long:
 * the processor's caches have lost the code and the data.
 */
const batchSize = 32;

/**
 * Remembers the last reconciles of each key: why they ran, what they sent, how they ended. Bounded: the records of the key
 * that was reconciled least recently go first, but not for a reconcile that sent nothing, of a key that has no record. Otherwise a resync
 * of many objects would leave none that tells what was done. Keeps names, reasons and codes, never values of objects or messages of errors.
 */
export class FlightRecorder implements OperatorObserver {
  readonly #controllers = new Map<string, RecordedController & { readonly keys: Map<string, RecordedKey> }>();
  readonly #log: RecordLog<RecordedKey>;
  /** The reconciles that have ended and are not in the log yet. */
  #unwritten: { readonly recorded: RecordedKey; readonly reconcile: RecordedReconcile }[] = [];

  /**
   * @param options.maxBytes an estimate of the memory that the records may take, without those of reconciles that run. Default: 3 MB.
   */
  constructor({ maxBytes = defaultMaxBytes }: { readonly maxBytes?: number } = {}) {
    this.#log = new RecordLog(maxBytes, ({ key, keys }) => keys.delete(key));
  }

  /** An estimate of the memory that the records take. */
  get bytes(): number {
    this.#write();
    return this.#log.bytes;
  }

  controller(controller: ObservedController): ControllerObserver {
    const keys = new Map<string, RecordedKey>();
    this.#controllers.set(controller.name, { controller, keys });
    return {
      filtered: (key, cause) => {
        const recorded = keys.get(key);
        if (recorded === undefined) return;
        recorded.filtered = cause;
        recorded.filteredAtMs = performance.now();
      },
      started: (key, startedAtMs, queued, retries) => {
        const recorded = keys.get(key) ?? new RecordedKey(key, keys, this.#log);
        keys.set(key, recorded);
        recorded.running = new RecordedReconcile(startedAtMs, queued, retries, (ended) => this.#ended(recorded, ended));
        return recorded.running;
      },
    };
  }

  controllerRemoved(name: string): void {
    const removed = this.#controllers.get(name);
    this.#controllers.delete(name);
    for (const recorded of removed?.keys.values() ?? []) recorded.remove();
  }

  /** Explains an object. Undefined if no controller reconciles its kind. */
  explain(query: ExplainQuery): Explanation | undefined {
    this.#write();
    return explainObject(this.#controllers.values(), query);
  }

  /** Explains what the operator did in a namespace, as far as it remembers. Searches all records. */
  explainActivity(query: ActivityQuery): Activity {
    this.#write();
    return explainActivity(this.#controllers.values(), query);
  }

  #ended(recorded: RecordedKey, reconcile: RecordedReconcile): void {
    recorded.ended(reconcile);
    this.#unwritten.push({ recorded, reconcile });
    if (this.#unwritten.length === batchSize) this.#write();
  }

  #write(): void {
    const ended = this.#unwritten;
    this.#unwritten = [];
    for (const { recorded, reconcile } of ended) recorded.write(reconcile);
  }
}
