import { isDeepStrictEqual } from 'node:util';
import type { Cause, DeltaCause } from '../queue/cause.ts';
import type { Linked } from '../queue/linked-list.ts';
import type { ReconcileRecord, RecordedReconcile, StepRecord } from './reconcile-record.ts';

/** How many reconciles of a key are kept. */
const keptReconciles = 5;

/** What is recorded of one key. */
export class RecordedKey implements Linked<RecordedKey> {
  readonly key: string;
  /** All keys of its controller. */
  readonly keys: Map<string, RecordedKey>;
  running: RecordedReconcile | undefined;
  /** The reconciles that have ended, oldest first. */
  readonly records: ReconcileRecord[] = [];
  /** How many reconciles have ended since the first that was recorded. */
  total = 0;
  /** The reason of `Ready` that was reported last. */
  lastReason: string | undefined;
  /** The last change that the controller's predicate dropped, and when. */
  filtered: Cause | undefined;
  filteredAtMs = 0;
  /** The bytes that the recorder has counted for it. 0: it has no records. */
  countedBytes = 0;
  previous: RecordedKey | undefined;
  next: RecordedKey | undefined;

  constructor(key: string, keys: Map<string, RecordedKey>) {
    this.key = key;
    this.keys = keys;
  }

  /** The running reconcile has ended. Its record replaces an alike one or, if there are too many, the one that explains least. */
  ended(record: ReconcileRecord): void {
    this.running = undefined;
    this.total += 1;
    this.lastReason = record.reason ?? this.lastReason;
    const alike = this.records.find((each) => areAlike(each, record));
    const replaced = alike ?? surplusOf(this.records);
    if (replaced !== undefined) this.records.splice(this.records.indexOf(replaced), 1);
    this.records.push(
      alike === undefined ? record : { ...record, count: alike.count + 1, firstStartedAtMs: alike.firstStartedAtMs },
    );
  }
}

/** Of those with the least weight, the oldest: a reconcile that acted explains more than those that its own events caused. */
function surplusOf(records: readonly ReconcileRecord[]): ReconcileRecord | undefined {
  if (records.length < keptReconciles) return undefined;
  const least = Math.min(...records.map(({ weight }) => weight));
  return records.find(({ weight }) => weight === least);
}

/** What alike reconciles have in common, beside their steps. The others are times and numbers of attempts. */
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

const areAlike = (a: ReconcileRecord, b: ReconcileRecord): boolean =>
  a.steps.length === b.steps.length &&
  commonMembers.every((member) => isDeepStrictEqual(a[member], b[member])) &&
  a.steps.every((step, index) => commonStepMembers.every((member) => step[member] === b.steps[index]?.[member]));

/**
 * How many bytes of V8's heap these take at most. `text` is a string that was concatenated and keeps its parts. Most characters take one
 * byte. A unit test measures that the sum suffices. The texts of kinds, verbs and subresources are shared by all records.
 */
const bytesOf = { key: 320, record: 320, step: 104, cause: 136, text: 64, character: 2 } as const;

/** An estimate of how many bytes of V8's heap a key and its records take: at least as many as they do. */
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

/** Counts a cause as if no other key had it. */
const causeBytes = (cause: Cause | undefined): number =>
  cause === undefined ? 0 : bytesOf.cause + (cause.type === 'delta' ? deltaTextBytes(cause) : 0);

const deltaTextBytes = ({ by, paths }: DeltaCause): number =>
  textBytes(by) + paths.reduce((sum, path) => sum + textBytes(path), 0);

const textBytes = (text: string | undefined): number =>
  text === undefined ? 0 : bytesOf.text + bytesOf.character * text.length;
