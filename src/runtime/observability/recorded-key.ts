import type { Cause } from '../queue/index.ts';
import type { Linked } from '../queue/linked-list.ts';
import { maxSteps, type ReconcileRecord, type RecordedReconcile, Weight } from './reconcile-record.ts';
import type { LogEntry, RecordLog } from './record-log.ts';

/** How many reconciles of a key are kept. */
const keptReconciles = 5;

/** What a key takes in V8's heap, beside its name. A unit test measures that it suffices. */
const keyBytes = 384;

/** By how many bytes V8's peak grows with each byte that lives in its heap: V8 collects at about twice what lives. */
const heapGrowth = 2;

/** Two lengths and a weight. */
const headerBytes = 9;

/** UTF-8 has at most so many bytes for each unit of a string's length. */
const maxUtf8Bytes = 3;

/** Three times, six other numbers, and one for each step. */
const maxMeasuresBytes = 3 * 8 + (6 + maxSteps) * 4;

/**
 * What is recorded of one key. Each reconcile that has ended is a record in the log, the newest first. A record is the lengths of its two
 * parts, the weight of the reconcile, and the parts: a text of what all alike reconciles have in common, and the numbers of this one.
 */
export class RecordedKey implements LogEntry, Linked<RecordedKey> {
  readonly key: string;
  readonly keys: Map<string, RecordedKey>;
  readonly #log: RecordLog<RecordedKey>;
  /** Whether it is in the log: some reconcile has ended. */
  #isLogged = false;
  /** How many reconciles have ended and are not in the log yet. */
  #unwritten = 0;
  offset = 0;
  length = 0;
  running: RecordedReconcile | undefined;
  /** How many reconciles have ended since the first that was recorded. */
  total = 0;
  /** The reason of `Ready` that the reconciles which have ended reported last. */
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

  /** A reconcile that runs may be stuck, which `explain` must tell. One that has ended is to be written. */
  get isPinned(): boolean {
    return this.running !== undefined || this.#unwritten > 0;
  }

  /** The reconciles that have ended and started at `fromMs` or later, oldest first. Not for the hot path. */
  reconcilesSince(fromMs: number): readonly ReconcileRecord[] {
    const bytes = this.#log.bytesOf(this);
    return locateRecords(new DataView(bytes.buffer, bytes.byteOffset, bytes.length), 0, bytes.length)
      .map((at) => ({ at, measures: measuresIn(bytes, at) }))
      .filter(({ measures }) => measures.startedAtMs >= fromMs)
      .map(({ at, measures }) => readReconcile(partsIn(bytes, at), measures))
      .reverse();
  }

  ended({ reason }: RecordedReconcile): void {
    this.total += 1;
    this.#unwritten += 1;
    this.lastReason = reason ?? this.lastReason;
    this.running = undefined;
  }

  /** Records a reconcile that has ended, unless the controller was removed meanwhile. */
  write(reconcile: RecordedReconcile): void {
    this.#unwritten -= 1;
    if (this.keys.get(this.key) === this) this.#write(reconcile);
  }

  /** Forgets all that is recorded. */
  remove(): void {
    if (this.#isLogged) this.#log.remove(this);
    this.keys.delete(this.key);
  }

  /** Replaces an alike reconcile, or else one that is too many. */
  #write(reconcile: RecordedReconcile): void {
    const text = textOf(reconcile);
    const maxBytes = this.length + headerBytes + maxUtf8Bytes * text.length + maxMeasuresBytes;
    if (!this.#isLogged) {
      if (reconcile.weight === Weight.dull && !this.#log.hasRoomFor(this, maxBytes)) {
        if (!this.isPinned) this.remove();
        return;
      }
      this.#log.add(this);
      this.#isLogged = true;
    }
    this.#log.write(this, maxBytes, ({ buffer, view }, start) => {
      const textAt = start + headerBytes;
      const measuresAt = textAt + buffer.write(text, textAt);
      const records = locateRecords(view, this.offset, this.offset + this.length);
      const alike = records.find((each) => buffer.compare(buffer, each.text, each.measures, textAt, measuresAt) === 0);
      const earlier = alike === undefined ? undefined : measuresIn(buffer, alike);
      let end = writeMeasures(view, measuresAt, reconcile, earlier);
      view.setUint32(start, measuresAt - textAt, true);
      view.setUint32(start + 4, end - measuresAt, true);
      view.setUint8(start + 8, reconcile.weight);
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
function locateRecords(view: DataView, from: number, to: number): readonly RecordPosition[] {
  const records: RecordPosition[] = [];
  for (let start = from; start < to; ) {
    const text = start + headerBytes;
    const measures = text + view.getUint32(start, true);
    const end = measures + view.getUint32(start + 4, true);
    records.push({ weight: view.getUint8(start + 8), start, text, measures, end });
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

type Step = ReconcileRecord['steps'][number];

/** What alike reconciles have in common. */
type CommonParts = Pick<
  ReconcileRecord,
  'cause' | 'furtherCauses' | 'requests' | 'furtherSteps' | 'reason' | 'outcome' | 'failure' | 'error'
> & { readonly steps: readonly Omit<Step, 'ms'>[] };

/** The numbers in which alike reconciles differ. */
type Measures = Pick<
  ReconcileRecord,
  'startedAtMs' | 'firstStartedAtMs' | 'nextAtMs' | 'count' | 'retries' | 'furtherAdds' | 'waitedMs' | 'ms'
> & { readonly stepMs: readonly (number | undefined)[] };

/**
 * A line for the reconcile, and one for each step, of members that are separated by tabs. An empty member is undefined. Not JSON, which
 * took most of a record's time; templates are faster than `join`, too.
 */
function textOf({
  cause,
  furtherCauses,
  steps,
  furtherSteps,
  requests,
  reason,
  outcome,
  failure,
  error = '',
}: RecordedReconcile): string {
  const further = furtherCauses.length === 0 ? '' : JSON.stringify(furtherCauses);
  const why = `${textOfCause(cause)}\t${further}\t${requests}\t${furtherSteps}\t`;
  let text = `${why}${member(reason)}\t${outcome ?? ''}\t${failure ?? ''}\t${error}`;
  for (const { verb, kind, code, name, subresource = '', paths = '' } of steps) {
    text += `\n${verb}\t${kind}\t${code}\t${member(name)}\t${subresource}\t${paths}`;
  }
  return text;
}

/** Empty if it would be more than one member. No object has such a name, and no condition such a reason: the API server refuses it. */
const member = (text = ''): string => (/[\t\n]/.test(text) ? '' : text);

/** Thousands of keys share a cause. */
const causeTexts = new WeakMap<Cause, string>();

function textOfCause(cause: Cause | undefined): string {
  if (cause === undefined) return '';
  const known = causeTexts.get(cause);
  if (known !== undefined) return known;
  const text = JSON.stringify(cause);
  causeTexts.set(cause, text);
  return text;
}

function partsOf(text: string): CommonParts {
  const [first = '', ...steps] = text.split('\n');
  const [cause, furtherCauses, requests, furtherSteps, reason, outcome, failure, error] = first.split('\t');
  return {
    cause: cause ? (JSON.parse(cause) as CommonParts['cause']) : undefined,
    furtherCauses: furtherCauses ? (JSON.parse(furtherCauses) as CommonParts['furtherCauses']) : [],
    requests: Number(requests),
    furtherSteps: Number(furtherSteps),
    reason: reason || undefined,
    outcome: (outcome || undefined) as CommonParts['outcome'],
    failure: (failure || undefined) as CommonParts['failure'],
    error: error || undefined,
    steps: steps.map(stepOf),
  };
}

function stepOf(line: string): CommonParts['steps'][number] {
  const [verb, kind = '', code, name, subresource, paths] = line.split('\t');
  return {
    verb: verb as Step['verb'],
    kind,
    code: Number(code),
    name: name || undefined,
    subresource: subresource || undefined,
    paths: paths || undefined,
  };
}

/**
 * @param earlier those of an alike reconcile, for which the record stands too
 * @returns where they end
 */
function writeMeasures(
  view: DataView,
  at: number,
  { startedAtMs, nextAtMs, retries, furtherAdds, waitedMs, ms, steps }: RecordedReconcile,
  earlier: Measures | undefined,
): number {
  view.setFloat64(at, startedAtMs, true);
  view.setFloat64(at + 8, earlier?.firstStartedAtMs ?? startedAtMs, true);
  view.setFloat64(at + 16, nextAtMs ?? Number.NaN, true);
  view.setFloat32(at + 24, (earlier?.count ?? 0) + 1, true);
  view.setFloat32(at + 28, retries, true);
  view.setFloat32(at + 32, furtherAdds, true);
  view.setFloat32(at + 36, waitedMs, true);
  view.setFloat32(at + 40, ms ?? Number.NaN, true);
  let end = at + 44;
  for (const step of steps) {
    view.setFloat32(end, step.ms ?? Number.NaN, true);
    end += 4;
  }
  return end;
}

const readReconcile = ({ steps, ...parts }: CommonParts, { stepMs, ...measures }: Measures): ReconcileRecord => ({
  ...parts,
  ...measures,
  steps: steps.map((step, index) => ({ ...step, ms: stepMs[index] })),
});

const partsIn = (buffer: Buffer, { text, measures }: RecordPosition): CommonParts =>
  partsOf(buffer.toString('utf8', text, measures));

function measuresIn(buffer: Buffer, { measures, end }: RecordPosition): Measures {
  const timeAt = (index: number): number => buffer.readDoubleLE(measures + index * 8);
  const others: number[] = [];
  for (let at = measures + 3 * 8; at < end; at += 4) others.push(rounded(buffer.readFloatLE(at)));
  const [count = 0, retries = 0, furtherAdds = 0, waitedMs = 0, ms, ...stepMs] = others;
  return {
    startedAtMs: timeAt(0),
    firstStartedAtMs: timeAt(1),
    nextAtMs: present(timeAt(2)),
    count,
    retries,
    furtherAdds,
    waitedMs,
    ms: present(ms),
    stepMs: stepMs.map(present),
  };
}

/** NaN stands for undefined. */
const present = (value: number | undefined): number | undefined => (Number.isNaN(value) ? undefined : value);

/** To what an explanation shows. */
const rounded = (value: number): number => Math.round(value * 10) / 10;
