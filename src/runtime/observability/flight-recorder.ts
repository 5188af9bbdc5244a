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
import { RecordedReconcile } from './reconcile-record.ts';
import { RecordLog } from './record-log.ts';
import { RecordedKey } from './recorded-key.ts';

/** With the code, and what running reconciles have recorded, the peak of the operator's memory grows by up to 4 MB. */
const defaultMaxBytes = 3 * 1024 * 1024;

/**
 * Remembers the last reconciles of each key: why they ran, what they sent, how they ended. Bounded: the records of the key
 * that was reconciled least recently go first, but not for a reconcile that sent nothing, of a key that has no record. Otherwise a resync
 * of many objects would leave none that tells what was done. Keeps names, reasons and codes, never values of objects or messages of errors.
 */
export class FlightRecorder implements OperatorObserver {
  readonly #controllers = new Map<string, RecordedController & { readonly keys: Map<string, RecordedKey> }>();
  readonly #log: RecordLog<RecordedKey>;

  /**
   * @param options.maxBytes an estimate of the memory that the records may take, without those of reconciles that run. Default: 3 MB.
   */
  constructor({ maxBytes = defaultMaxBytes }: { readonly maxBytes?: number } = {}) {
    this.#log = new RecordLog(maxBytes, ({ key, keys }) => keys.delete(key));
  }

  /** An estimate of the memory that the records take. */
  get bytes(): number {
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
        recorded.running = new RecordedReconcile(recorded, startedAtMs, queued, retries);
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
    return explainObject(this.#controllers.values(), query);
  }

  /** Explains what the operator did in a namespace, as far as it remembers. Searches all records. */
  explainActivity(query: ActivityQuery): Activity {
    return explainActivity(this.#controllers.values(), query);
  }
}
