import type { Cause } from '../queue/index.ts';
import type { Linked } from '../queue/linked-list.ts';
import {
  isOnlyStatus,
  maxSteps,
  type ReconcileRecord,
  type RecordedReconcile,
  withoutTime,
} from './reconcile-record.ts';
import type { LogEntry, RecordLog } from './record-log.ts';

/** How many reconciles of a key are kept. */
const keptReconciles = 5;

/** What a key takes in V8's heap, beside its name. A unit test measures that it suffices. */
const keyBytes = 384;

/** By how many bytes V8's peak grows with each byte that lives in its heap: V8 collects at about twice what lives. */
const heapGrowth = 2;

/** Two lengths and a weight. */
const headerBytes = 9;

/** Three times, six other numbers, and one for each step. */
const maxMeasuresBytes = 3 * 8 + (6 + maxSteps) * 4;

/**
 * What is recorded of one key. Each reconcile that has ended is a record in the log, the newest first. A record is the lengths of its two
 * parts, the weight of the reconcile, and the parts: a JSON text of what all alike reconciles have in common, and the numbers of this one.
 */
export class RecordedKey implements LogEntry, Linked<RecordedKey> {
  readonly key: string;
  readonly keys: Map<string, RecordedKey>;
  readonly #log: RecordLog<RecordedKey>;
  /** Whether it is in the log: some reconcile has ended. */
  #isLogged = false;
  offset = 0;
  length = 0;
  running: RecordedReconcile | undefined;
  /** How many reconciles have ended since the first that was recorded. */
  total = 0;
  /** The reason of `Ready` that was reported last. */
  lastReason: string | undefined;
  /** The last change that the controller's predicate dropped, and when. */
  filtered: Cause | undefined;
  filteredAtMs = 0;
  previous: RecordedKey | undefined;
  next: RecordedKey | undefined;

  constructor(key: string, keys: Map<string, RecordedKey>, log: RecordLog<RecordedKey>) {
    this.key = key;
    this.keys = keys;
    this.#log = log;
  }

  get heapBytes(): number {
    return heapGrowth * (keyBytes + this.key.length);
  }

  /** A reconcile that runs may be stuck, which `explain` must tell. */
  get isPinned(): boolean {
    return this.running !== undefined;
  }

  /** The reconciles that have ended and started at `fromMs` or later, oldest first. Not for the hot path. */
  reconcilesSince(fromMs: number): readonly ReconcileRecord[] {
    const bytes = this.#log.bytesOf(this);
    return locateRecords(bytes, 0, bytes.length)
      .map((at) => ({ at, measures: measuresIn(bytes, at) }))
      .filter(({ measures }) => measures.startedAtMs >= fromMs)
      .map(({ at, measures }) => readReconcile(textIn(bytes, at), measures))
      .reverse();
  }

  ended(reconcile: RecordedReconcile): void {
    this.total += 1;
    try {
      // Pinned until it is written. The controller may have been removed while it reconciled the key.
      if (this.keys.get(this.key) === this) this.#write(reconcile);
    } finally {
      this.running = undefined;
    }
  }

  /** Forgets all that is recorded. */
  remove(): void {
    if (this.#isLogged) this.#log.remove(this);
    this.keys.delete(this.key);
  }

  /** Replaces an alike reconcile, or else one that is too many. */
  #write(reconcile: RecordedReconcile): void {
    const text = textOf(reconcile);
    const weight = weightOf(reconcile);
    const maxBytes = this.length + headerBytes + Buffer.byteLength(text) + maxMeasuresBytes;
    if (!this.#isLogged) {
      if (weight === Weight.dull && !this.#log.hasRoomFor(this, maxBytes)) {
        this.remove();
        return;
      }
      this.#log.add(this);
      this.#isLogged = true;
    }
    this.#log.write(this, maxBytes, (buffer, start) => {
      const textAt = start + headerBytes;
      const measuresAt = textAt + buffer.write(text, textAt);
      const records = locateRecords(buffer, this.offset, this.offset + this.length);
      const alike = records.find((each) => buffer.compare(buffer, each.text, each.measures, textAt, measuresAt) === 0);
      const earlier = alike === undefined ? undefined : measuresIn(buffer, alike);
      let end = writeMeasures(buffer, measuresAt, reconcile, earlier);
      buffer.writeUInt32LE(measuresAt - textAt, start);
      buffer.writeUInt32LE(end - measuresAt, start + 4);
      buffer.writeUInt8(weight, start + 8);
      const replaced = alike ?? surplusOf(records);
      for (const each of records) if (each !== replaced) end += buffer.copy(buffer, end, each.start, each.end);
      return end;
    });
  }
}

/** Where a record and its parts are in a buffer. */
interface RecordPosition {
  readonly weight: number;
  readonly start: number;
  readonly text: number;
  readonly measures: number;
  readonly end: number;
}

/** The records of one key, newest first. */
function locateRecords(buffer: Buffer, from: number, to: number): readonly RecordPosition[] {
  const records: RecordPosition[] = [];
  for (let start = from; start < to; ) {
    const text = start + headerBytes;
    const measures = text + buffer.readUInt32LE(start);
    const end = measures + buffer.readUInt32LE(start + 4);
    records.push({ weight: buffer.readUInt8(start + 8), start, text, measures, end });
    start = end;
  }
  return records;
}

/** Of those with the least weight, the oldest: a reconcile that acted explains more than those that its own events caused. */
function surplusOf(records: readonly RecordPosition[]): RecordPosition | undefined {
  if (records.length < keptReconciles) return undefined;
  const least = Math.min(...records.map(({ weight }) => weight));
  return records.findLast(({ weight }) => weight === least);
}

/** How much a reconcile explains. */
const Weight = {
  /** It sent nothing, and no change of a field other than the status caused it. */
  dull: 0,
  /** It read or wrote a status, or such a change caused it. */
  ordinary: 1,
  /** It changed more than a status, or failed. */
  acted: 2,
} as const;

function weightOf({ requests, steps, error, cause, furtherCauses }: RecordedReconcile): number {
  if (error !== undefined || steps.some(isAct)) return Weight.acted;
  const isListed = requests === steps.filter(({ verb }) => verb !== 'unchanged').length;
  if (requests > 0) return isListed ? Weight.ordinary : Weight.acted;
  const causes = [cause, ...furtherCauses];
  return causes.some((each) => each?.type === 'delta' && !isOnlyStatus(each)) ? Weight.ordinary : Weight.dull;
}

const isAct = ({ verb, subresource }: ReconcileRecord['steps'][number]): boolean =>
  subresource !== 'status' && !['get', 'list', 'unchanged'].includes(verb);

type Step = ReconcileRecord['steps'][number];

/** What alike reconciles have in common. */
interface CommonText extends Pick<ReconcileRecord, 'cause' | 'requests' | 'reason' | 'outcome' | 'failure' | 'error'> {
  /** Undefined instead of empty or 0. */
  readonly furtherCauses: ReconcileRecord['furtherCauses'] | undefined;
  readonly furtherSteps: number | undefined;
  /** JSON has null instead of undefined. */
  readonly steps:
    | readonly (readonly [Step['verb'], kind: string, code: number, ...(string | null | undefined)[]])[]
    | undefined;
}

/** The numbers in which alike reconciles differ. */
type Measures = Pick<
  ReconcileRecord,
  | 'startedAtMs'
  | 'firstStartedAtMs'
  | 'nextAtMs'
  | 'count'
  | 'retries'
  | 'furtherAdds'
  | 'waitedMs'
  | 'deferredMs'
  | 'ms'
> & { readonly stepMs: readonly (number | undefined)[] };

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
  const text: CommonText = {
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

/** @param earlier those of an alike reconcile, for which the record stands too */
function writeMeasures(
  buffer: Buffer,
  at: number,
  { startedAtMs, nextAtMs, retries, furtherAdds, waitedMs, deferredMs, ms, steps }: RecordedReconcile,
  earlier: Measures | undefined,
): number {
  const { firstStartedAtMs = startedAtMs, count = 0 } = earlier ?? {};
  let end = at;
  for (const time of [startedAtMs, firstStartedAtMs, nextAtMs]) end = buffer.writeDoubleLE(time ?? Number.NaN, end);
  for (const each of [count + 1, retries, furtherAdds, waitedMs, deferredMs, ms])
    end = buffer.writeFloatLE(each ?? Number.NaN, end);
  for (const step of steps) end = buffer.writeFloatLE(step.ms ?? Number.NaN, end);
  return end;
}

function readReconcile(
  { furtherCauses = [], steps = [], furtherSteps = 0, ...text }: CommonText,
  { stepMs, ...measures }: Measures,
): ReconcileRecord {
  return {
    ...text,
    ...measures,
    furtherCauses,
    steps: steps.map(([verb, kind, code, name, subresource, paths], index) => ({
      verb,
      kind,
      code,
      name: name ?? undefined,
      subresource: subresource ?? undefined,
      paths: paths ?? undefined,
      ms: stepMs[index],
    })),
    furtherSteps,
  };
}

const textIn = (buffer: Buffer, { text, measures }: RecordPosition): CommonText =>
  JSON.parse(buffer.toString('utf8', text, measures)) as CommonText;

function measuresIn(buffer: Buffer, { measures, end }: RecordPosition): Measures {
  const timeAt = (index: number): number => buffer.readDoubleLE(measures + index * 8);
  const others: number[] = [];
  for (let at = measures + 3 * 8; at < end; at += 4) others.push(rounded(buffer.readFloatLE(at)));
  const [count = 0, retries = 0, furtherAdds = 0, waitedMs = 0, deferredMs, ms, ...stepMs] = others;
  return {
    startedAtMs: timeAt(0),
    firstStartedAtMs: timeAt(1),
    nextAtMs: present(timeAt(2)),
    count,
    retries,
    furtherAdds,
    waitedMs,
    deferredMs: present(deferredMs),
    ms: present(ms),
    stepMs: stepMs.map(present),
  };
}

/** NaN stands for undefined. */
const present = (value: number | undefined): number | undefined => (Number.isNaN(value) ? undefined : value);

/** To what an explanation shows. */
const rounded = (value: number): number => Math.round(value * 10) / 10;
