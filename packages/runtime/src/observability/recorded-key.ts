import { isDeepStrictEqual } from 'node:util';
import type { Cause, DeltaCause } from '../queue/cause.ts';
import type { Linked } from '../queue/linked-list.ts';
import type { ReconcileRecord, RecordedReconcile, StepRecord } from './reconcile-record.ts';

/** How many reconciles of a key are kept. */
const keptReconciles = 5;

/** The recorded reconciles of one key. */
export class RecordedKey implements Linked<RecordedKey> {
  readonly key: string;
  /** The map of all recorded keys of the same controller. */
  readonly keys: Map<string, RecordedKey>;
  running: RecordedReconcile | undefined;
  /** The reconciles that have ended, oldest first. */
  readonly records: ReconcileRecord[] = [];
  /** How many reconciles have ended since the first recorded one. */
  total = 0;
  /** The last reported reason of `Ready`. */
  lastReason: string | undefined;
  /** The last change that the controller's predicate rejected, and its time. */
  filtered: Cause | undefined;
  filteredAtMs = 0;
  /** The bytes that the recorder has counted for this key. 0: the key has no records. */
  countedBytes = 0;
  previous: RecordedKey | undefined;
  next: RecordedKey | undefined;

  constructor(key: string, keys: Map<string, RecordedKey>) {
    this.key = key;
    this.keys = keys;
  }

  /**
   * Records that the running reconcile has ended. Its record replaces a similar record or, if there are too many, the
   * record that explains least.
   */
  ended(record: ReconcileRecord): void {
    this.running = undefined;
    this.total += 1;
    this.lastReason = record.reason ?? this.lastReason;
    const similar = this.records.find((each) => areSimilar(each, record));
    const replaced = similar ?? surplusOf(this.records);
    if (replaced !== undefined) this.records.splice(this.records.indexOf(replaced), 1);
    this.records.push(
      similar === undefined
        ? record
        : { ...record, count: similar.count + 1, firstStartedAtMs: similar.firstStartedAtMs },
    );
  }
}

/**
 * Returns the oldest of the records with the least weight. A reconcile that acted explains more than the reconciles
 * that its own events caused.
 */
function surplusOf(records: readonly ReconcileRecord[]): ReconcileRecord | undefined {
  if (records.length < keptReconciles) return undefined;
  const least = Math.min(...records.map(({ weight }) => weight));
  return records.find(({ weight }) => weight === least);
}

/**
 * The members that similar reconciles have in common, in addition to their steps. The other members are times and
 * numbers of attempts.
 */
const commonMembers = [
  'requests',
  'furtherSteps',
  'reason',
  'outcome',
  'failure',
  'error',
  'cause',
  'furtherCauses',
] as const;
const commonStepMembers = ['verb', 'kind', 'code', 'name', 'subresource', 'paths'] as const;

const areSimilar = (a: ReconcileRecord, b: ReconcileRecord): boolean =>
  a.steps.length === b.steps.length &&
  commonMembers.every((member) => isDeepStrictEqual(a[member], b[member])) &&
  a.steps.every((step, index) => commonStepMembers.every((member) => step[member] === b.steps[index]?.[member]));

/**
 * The maximum number of bytes of V8's heap for each part. `text` is a string that was concatenated and keeps its parts.
 * Most characters take one byte. A unit test measures that the sum is large enough. All records share the texts of
 * kinds, verbs and subresources.
 */
const bytesOf = { key: 320, record: 320, step: 104, cause: 136, text: 64, character: 2 } as const;

/** Estimates how many bytes of V8's heap a key and its records take. The estimate is never too low. */
export function estimateBytes({ key, records, filtered }: RecordedKey): number {
  const parts = records.reduce((sum, record) => sum + recordBytes(record), 0);
  return bytesOf.key + textBytes(key) + causeBytes(filtered) + parts;
}

const recordBytes = ({ cause, furtherCauses, steps, error, reason }: ReconcileRecord): number =>
  bytesOf.record +
  textBytes(error) +
  textBytes(reason) +
  causeBytes(cause) +
  furtherCauses.reduce((sum, each) => sum + causeBytes(each), 0) +
  steps.reduce((sum, step) => sum + stepBytes(step), 0);

const stepBytes = ({ name, paths }: StepRecord): number => bytesOf.step + textBytes(name) + textBytes(paths);

/** Counts a cause as if no other key shared it. */
const causeBytes = (cause: Cause | undefined): number =>
  cause === undefined ? 0 : bytesOf.cause + (cause.type === 'delta' ? deltaTextBytes(cause) : 0);

const deltaTextBytes = ({ by, paths }: DeltaCause): number =>
  textBytes(by) + paths.reduce((sum, path) => sum + textBytes(path), 0);

const textBytes = (text: string | undefined): number =>
  text === undefined ? 0 : bytesOf.text + bytesOf.character * text.length;
