import type { Cause } from '../queue/index.ts';
import type { Linked } from '../queue/linked-list.ts';
import {
  isOnlyStatus,
  type ReconcileRecord,
  type RecordedCause,
  type RecordedReconcile,
  withoutTime,
} from './reconcile-record.ts';
import type { LogEntry, RecordLog } from './record-log.ts';

/** How many reconciles of a key are kept. */
const keptReconciles = 5;

/**
 * Twice what a key takes in V8's heap beside its name: the heap's peak grows by about two bytes for each that lives. A unit test measures it.
 */
const keyBytes = 512;

/** Two lengths and a type. */
const headerBytes = 9;
const types = { reconcile: 0, dull: 1, filtered: 2 };

/** In UTF-8, of a UTF-16 code unit. */
const maxBytesOfCharacter = 3;

/** More than {@link numbersOf} needs: at most 30 numbers, of at most 14 characters each. */
const maxNumbersBytes = 512;

/**
 * What is recorded of one key. Reconciles that have ended, and the last change that was filtered, are records in the log, newest first:
 * the lengths of two JSON texts, the type, the texts. The first text is what alike reconciles have in common, the second one has numbers.
 */
export class RecordedKey implements LogEntry, Linked<RecordedKey> {
  readonly key: string;
  readonly keys: Map<string, RecordedKey>;
  readonly #log: RecordLog<RecordedKey>;
  offset = 0;
  length = 0;
  running: RecordedReconcile | undefined;
  /** How many reconciles have ended since the first that was recorded. */
  total = 0;
  /** The reason of `Ready` that was reported last. */
  lastReason: string | undefined;
  previous: RecordedKey | undefined;
  next: RecordedKey | undefined;

  constructor(key: string, keys: Map<string, RecordedKey>, log: RecordLog<RecordedKey>) {
    this.key = key;
    this.keys = keys;
    this.#log = log;
  }

  get heapBytes(): number {
    return keyBytes + this.key.length;
  }

  /** What runs may be stuck. */
  get isPinned(): boolean {
    return this.running !== undefined;
  }

  /** The reconciles that have ended, oldest first. Not for the hot path. */
  get reconciles(): readonly ReconcileRecord[] {
    const bytes = this.#log.bytesOf(this);
    return recordsIn(bytes, 0, bytes.length)
      .filter(({ type }) => type !== types.filtered)
      .map((record) => readReconcile(bytes, record))
      .reverse();
  }

  /** The last change that the controller's predicate dropped, and when. Not for the hot path. */
  get filtered(): { readonly cause: RecordedCause; readonly atMs: number } | undefined {
    const bytes = this.#log.bytesOf(this);
    const record = recordsIn(bytes, 0, bytes.length).find(({ type }) => type === types.filtered);
    if (record === undefined) return undefined;
    return { cause: JSON.parse(textIn(bytes, record)) as RecordedCause, atMs: numbersIn(bytes, record)[0] };
  }

  /** The controller's predicate has dropped a change. */
  filter(cause: Cause): void {
    this.#write(types.filtered, JSON.stringify(withoutTime(cause)), (records) => ({
      dropped: records.find(({ type }) => type === types.filtered),
      numbers: JSON.stringify([rounded(performance.now())]),
    }));
  }

  ended(reconcile: RecordedReconcile): void {
    this.total += 1;
    const type = isDull(reconcile) ? types.dull : types.reconcile;
    // It is pinned until it is written.
    this.#write(type, textOf(reconcile), (records, alike, buffer) => {
      const earlier = alike === undefined ? undefined : numbersIn(buffer, alike);
      return { dropped: alike ?? surplusOf(records), numbers: numbersOf(reconcile, earlier) };
    });
    this.running = undefined;
  }

  /**
   * Adds a record, and drops at most one.
   *
   * @param finish is called with the records, and with the one that has the same type and text
   */
  #write(
    type: number,
    text: string,
    finish: (
      records: readonly LogRecord[],
      alike: LogRecord | undefined,
      buffer: Buffer,
    ) => { readonly dropped: LogRecord | undefined; readonly numbers: string },
  ): void {
    // The controller was removed while it reconciled the key.
    if (this.keys.get(this.key) !== this) return;
    const maxBytes = this.length + headerBytes + text.length * maxBytesOfCharacter + maxNumbersBytes;
    this.#log.write(this, maxBytes, (buffer, at) => {
      const textAt = at + headerBytes;
      const numbersAt = textAt + buffer.write(text, textAt);
      const records = recordsIn(buffer, this.offset, this.offset + this.length);
      const alike = records.find(
        (record) =>
          record.type === type && buffer.compare(buffer, record.textAt, record.numbersAt, textAt, numbersAt) === 0,
      );
      const { dropped, numbers } = finish(records, alike, buffer);
      let end = numbersAt + buffer.write(numbers, numbersAt, 'latin1');
      buffer.writeUInt32LE(numbersAt - textAt, at);
      buffer.writeUInt32LE(end - numbersAt, at + 4);
      buffer.writeUInt8(type, at + 8);
      for (const record of records) if (record !== dropped) end += buffer.copy(buffer, end, record.at, record.end);
      return end;
    });
  }
}

/** Where a record is in the log's buffer. */
interface LogRecord {
  readonly type: number;
  readonly at: number;
  readonly textAt: number;
  readonly numbersAt: number;
  readonly end: number;
}

/** The records of one key. */
function recordsIn(buffer: Buffer, from: number, to: number): readonly LogRecord[] {
  const records: LogRecord[] = [];
  for (let at = from; at < to; ) {
    const textAt = at + headerBytes;
    const numbersAt = textAt + buffer.readUInt32LE(at);
    const end = numbersAt + buffer.readUInt32LE(at + 4);
    records.push({ type: buffer.readUInt8(at + 8), at, textAt, numbersAt, end });
    at = end;
  }
  return records;
}

/** The oldest dull reconcile, or else the oldest: one that wrote explains more than those that its events caused. */
function surplusOf(records: readonly LogRecord[]): LogRecord | undefined {
  const reconciles = records.filter(({ type }) => type !== types.filtered);
  if (reconciles.length < keptReconciles) return undefined;
  return reconciles.findLast(({ type }) => type === types.dull) ?? reconciles.at(-1);
}

/** Whether it sent nothing, did not fail, and no change of more than a status caused it. */
function isDull({ requests, error, cause, furtherCauses }: RecordedReconcile): boolean {
  if (requests > 0 || error !== undefined) return false;
  return ![cause, ...furtherCauses].some((each) => each?.type === 'delta' && !isOnlyStatus(each));
}

type Step = ReconcileRecord['steps'][number];

/** What alike reconciles have in common. */
interface Text extends Pick<ReconcileRecord, 'cause' | 'requests' | 'reason' | 'outcome' | 'failure' | 'error'> {
  /** Undefined instead of empty or 0. */
  readonly furtherCauses: ReconcileRecord['furtherCauses'] | undefined;
  readonly furtherSteps: number | undefined;
  /** JSON has null instead of undefined. */
  readonly steps:
    | readonly (readonly [Step['verb'], kind: string, code: number, ...(string | null | undefined)[]])[]
    | undefined;
}

/** In milliseconds, as far as they are times. */
type Numbers = readonly [
  startedAtMs: number,
  firstStartedAtMs: number,
  count: number,
  retries: number,
  furtherAdds: number,
  waitedMs: number,
  deferredMs: number | null | undefined,
  ms: number | null | undefined,
  nextInMs: number | null | undefined,
  ...stepMs: (number | null | undefined)[],
];

function textOf({
  cause,
  furtherCauses,
  steps,
  furtherSteps,
  requests,
  reason,
  outcome,
  failure,
  error,
}: RecordedReconcile): string {
  const text: Text = {
    cause: withoutTime(cause),
    furtherCauses: furtherCauses.length === 0 ? undefined : furtherCauses.map(withoutTime),
    steps:
      steps.length === 0
        ? undefined
        : steps.map(({ verb, kind, code, name, subresource, paths }) => [verb, kind, code, name, subresource, paths]),
    furtherSteps: furtherSteps === 0 ? undefined : furtherSteps,
    requests,
    reason,
    outcome,
    failure,
    error,
  };
  return JSON.stringify(text);
}

/** @param earlier of an alike reconcile, for which this record will stand too */
function numbersOf(reconcile: RecordedReconcile, earlier: Numbers | undefined): string {
  const { startedAtMs, retries, furtherAdds, waitedMs, deferredMs, ms, nextAtMs, steps } = reconcile;
  const [, firstStartedAtMs = startedAtMs, count = 0] = earlier ?? [];
  const numbers: Numbers = [
    rounded(startedAtMs),
    rounded(firstStartedAtMs),
    count + 1,
    retries,
    furtherAdds,
    rounded(waitedMs),
    rounded(deferredMs),
    rounded(ms),
    rounded(nextAtMs === undefined ? undefined : nextAtMs - startedAtMs),
    ...steps.map((step) => rounded(step.ms)),
  ];
  return JSON.stringify(numbers);
}

function readReconcile(buffer: Buffer, record: LogRecord): ReconcileRecord {
  const { furtherCauses = [], steps = [], furtherSteps = 0, ...text } = JSON.parse(textIn(buffer, record)) as Text;
  const [startedAtMs, firstStartedAtMs, count, retries, furtherAdds, waitedMs, deferredMs, ms, nextInMs, ...stepMs] =
    numbersIn(buffer, record);
  return {
    ...text,
    startedAtMs,
    firstStartedAtMs,
    count,
    retries,
    furtherCauses,
    furtherAdds,
    waitedMs,
    deferredMs: deferredMs ?? undefined,
    steps: steps.map(([verb, kind, code, name, subresource, paths], index) => ({
      verb,
      kind,
      code,
      name: name ?? undefined,
      subresource: subresource ?? undefined,
      paths: paths ?? undefined,
      ms: stepMs[index] ?? undefined,
    })),
    furtherSteps,
    ms: ms ?? undefined,
    nextAtMs: nextInMs == null ? undefined : startedAtMs + nextInMs,
  };
}

const textIn = (buffer: Buffer, { textAt, numbersAt }: LogRecord): string => buffer.toString('utf8', textAt, numbersAt);

const numbersIn = (buffer: Buffer, { numbersAt, end }: LogRecord): Numbers =>
  JSON.parse(buffer.toString('latin1', numbersAt, end)) as Numbers;

/** To what an explanation shows. */
function rounded(ms: number): number;
function rounded(ms: number | undefined): number | undefined;
function rounded(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 10) / 10;
}
