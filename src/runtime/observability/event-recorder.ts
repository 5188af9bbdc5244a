import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type Client, type Gate, isNotFound } from '../client/index.ts';
import { apiVersionOf, type Kind, type KubeObject, keyOf, type Manifest } from '../kind/index.ts';
import { Event } from '../kinds/index.ts';
import { type EventSeries, EventSubjects, type EventSubjectsOptions } from './event-subjects.ts';
import { EventWrites } from './event-writes.ts';
import type { Logger } from './logger.ts';

/** What happened to an object, for `kubectl describe`. */
export interface EventNotice {
  readonly type: 'Normal' | 'Warning';
  /** One CamelCase word: why. */
  readonly reason: string;
  /** One CamelCase word: what was done. */
  readonly action: string;
  /** For a person. Cut at 1,024 bytes, the API's limit. */
  readonly note: string;
}

/** What an {@link EventRecorder} needs. */
export interface EventRecorderOptions extends EventSubjectsOptions {
  readonly client: Client;
  /** A qualified name: `echoperator.mmontes.io/echo`. */
  readonly controller: string;
  /** Which process: the pod's name. */
  readonly instance: string;
  readonly log: Logger;
  /** The client's. Once it has closed, what waits is dropped without a line for each. Default: none. */
  readonly gate?: Gate | undefined;
  /** A series is over, and its last count is written, when it was silent for so long. Default 360,000, as client-go. */
  readonly seriesSilenceMs?: number;
  /** The count of a series that goes on is written this often, or the API server forgets it. Default 1,800,000. */
  readonly seriesRefreshMs?: number;
  /** So many writes may wait; more are dropped: Events are a courtesy, never worth the memory. Default 20,000. */
  readonly maxWaiting?: number;
}

/** An Event, and what has to be written of its repetitions. Small, for thousands are kept. */
interface Series extends EventSeries {
  /** The object's. */
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
  /** How often it happened. */
  count: number;
  /** When it happened last: in ms since 1970, and by performance.now, which no change of the clock moves. */
  lastObserved: number;
  lastObservedMs: number;
  /** The count that the API server knows; 0 before the Event is made. */
  writtenCount: number;
  writtenMs: number;
  writing: boolean;
}

/**
 * Writes Events beside the work: nobody waits for one, and a failure is a line in the log.
 *
 * - A few are written at a time, so that in a storm the work goes first; 20,000 may wait.
 * - What happens again to an object (the same type, reason, action and note) within the silence that ends a series is
 *   not another Event: the second time makes the first one a series, later times are counted and written when the
 *   series is over, or each half hour while it lasts. As client-go does (tools/events), which tells series apart by the
 *   object's resourceVersion and not by the note.
 * - An object has 25 Events at once and one more each five minutes; what is more is dropped, which the log says once. As
 *   client-go does (tools/record, EventSourceObjectSpamFilter).
 * - Of 4,096 objects at the most this is remembered, those that had an Event last.
 */
export class EventRecorder {
  readonly #client: Client;
  readonly #controller: string;
  readonly #instance: string;
  readonly #log: Logger;
  readonly #gate: Gate | undefined;
  readonly #silenceMs: number;
  readonly #refreshMs: number;
  readonly #maxWaiting: number;
  readonly #subjects: EventSubjects<Series>;
  readonly #writes = new EventWrites();
  /** Makes names that no other recorder makes: begun at random, counted on. */
  readonly #origin = randomBytes(5).toString('hex');
  #made = 0;
  /** Dropped since too many waited. */
  #dropped = 0;
  #sweep: NodeJS.Timeout | undefined;

  constructor(options: EventRecorderOptions) {
    this.#client = options.client;
    this.#controller = options.controller;
    this.#instance = options.instance;
    this.#log = options.log;
    this.#gate = options.gate;
    this.#silenceMs = options.seriesSilenceMs ?? 360_000;
    this.#refreshMs = options.seriesRefreshMs ?? 1_800_000;
    this.#maxWaiting = options.maxWaiting ?? 20_000;
    this.#subjects = new EventSubjects(options, (series) => this.#finish(series));
  }

  /** Begins to write an Event about `object`, in its namespace; returns at once and never throws. */
  record(kind: Kind, object: KubeObject, notice: EventNotice): void {
    const subject = this.#subjects.of(object.metadata.uid);
    const known = subject.find(notice);
    if (known !== undefined) {
      this.#repeat(known);
      return;
    }
    if (!this.#mayWrite(notice)) return;
    if (!subject.take()) {
      if (subject.dropped === 1)
        this.#log.warn(
          { object: keyOf(object), reason: notice.reason },
          'too many events about one object: more are dropped for a while',
        );
      return;
    }
    const happened = Date.now();
    const series: Series = {
      type: notice.type,
      reason: notice.reason,
      action: notice.action,
      note: notice.note,
      uid: object.metadata.uid,
      name: this.#eventName(object.metadata.name),
      // An Event about an object without a namespace is in this one.
      namespace: object.metadata.namespace ?? 'default',
      count: 1,
      lastObserved: happened,
      lastObservedMs: performance.now(),
      writtenCount: 0,
      writtenMs: 0,
      writing: false,
    };
    subject.add(series);
    this.#begin(series, () => this.#create(series, this.#event(kind, object, series, happened)));
    this.#sweepLater();
  }

  /**
   * Writes the counts of the series that go on, and resolves when what has been recorded so far is written or has
   * failed, or when the time is over.
   */
  async flush(timeoutMs: number): Promise<void> {
    const over = new AbortController();
    const timeout = delay(timeoutMs, undefined, { signal: over.signal }).catch(() => {});
    const written = this.#writes.settled().then(() => {
      for (const series of this.#subjects.series()) this.#finish(series);
      return this.#writes.settled();
    });
    await Promise.race([written, timeout]);
    over.abort();
  }

  #mayWrite({ reason }: Pick<EventNotice, 'reason'>): boolean {
    if (this.#writes.size < this.#maxWaiting) {
      if (this.#dropped > 0) this.#log.warn({ dropped: this.#dropped }, 'events are taken again');
      this.#dropped = 0;
      return true;
    }
    this.#dropped += 1;
    if (this.#dropped === 1) this.#log.warn({ reason }, 'too many events wait: more are dropped for now');
    return false;
  }

  #repeat(series: Series): void {
    series.count += 1;
    series.lastObserved = Date.now();
    series.lastObservedMs = performance.now();
    // The second makes it a series, for all to see.
    if (series.writtenCount === 1) this.#finish(series);
  }

  /** Begins to write the count of a series, if the API server does not know it and is not being told. */
  #finish(series: Series): void {
    const isDue = series.writtenCount > 0 && series.count > series.writtenCount && !series.writing;
    if (isDue && this.#mayWrite(series)) this.#begin(series, () => this.#patch(series));
  }

  get #isClosed(): boolean {
    return this.#gate?.signal.aborted ?? false;
  }

  #begin(series: Series, write: () => Promise<void>): void {
    series.writing = true;
    this.#writes.add(async () => {
      try {
        if (!this.#isClosed) await write();
      } catch (error) {
        if (!this.#isClosed) this.#log.warn({ err: error, reason: series.reason }, 'an event was not written');
      } finally {
        series.writing = false;
      }
    });
  }

  async #create(series: Series, manifest: Manifest<Event>): Promise<void> {
    try {
      await this.#client.create(Event, manifest);
      this.#written(series, 1);
    } catch (error) {
      // The next time it happens is the first again.
      this.#subjects.remove(series.uid, series);
      throw error;
    }
    // It happened again meanwhile.
    if (series.count > 1) await this.#patch(series);
  }

  async #patch(series: Series): Promise<void> {
    const { name, namespace, count, lastObserved } = series;
    const body = { series: { count, lastObservedTime: microTime(lastObserved) } };
    try {
      await this.#client.patch(Event, { name, namespace }, { type: 'merge', body });
      this.#written(series, count);
    } catch (error) {
      if (!isNotFound(error)) throw error;
      // Somebody deleted it: the next time it happens is the first again.
      this.#subjects.remove(series.uid, series);
    }
  }

  #written(series: Series, count: number): void {
    series.writtenCount = count;
    series.writtenMs = performance.now();
  }

  /** One timer for all; while there is nothing to remember there is none. It keeps no process alive. */
  #sweepLater(): void {
    this.#sweep ??= setTimeout(() => {
      this.#sweep = undefined;
      const nowMs = performance.now();
      const isOver = (series: Series): boolean => nowMs - series.lastObservedMs >= this.#silenceMs;
      for (const series of this.#subjects.series()) {
        if (isOver(series) || nowMs - series.writtenMs >= this.#refreshMs) this.#finish(series);
      }
      this.#subjects.forget((series) => !series.writing && isOver(series));
      if (this.#subjects.size > 0) this.#sweepLater();
    }, this.#silenceMs).unref();
  }

  /** 253 characters at the most, of parts that end in a letter or a digit. */
  #eventName(objectName: string): string {
    this.#made += 1;
    const unique = `${this.#origin}${this.#made.toString(16).padStart(6, '0')}`;
    return `${objectName.slice(0, 230).replace(/[^a-z0-9]+$/, '')}.${unique}`;
  }

  #event(kind: Kind, object: KubeObject, series: Series, happened: number): Manifest<Event> {
    const { uid, resourceVersion } = object.metadata;
    return {
      metadata: { name: series.name, namespace: series.namespace },
      eventTime: microTime(happened),
      type: series.type,
      reason: series.reason,
      action: series.action,
      note: beginning(series.note, 1024),
      reportingController: this.#controller,
      reportingInstance: this.#instance,
      regarding: { apiVersion: apiVersionOf(kind), kind: kind.kind, ...keyOf(object), uid, resourceVersion },
    };
  }
}

/** The longest beginning of the text that has so many bytes at the most and ends with a whole character. */
function beginning(text: string, maxBytes: number): string {
  // No character takes more than three bytes for each of its units.
  if (text.length * 3 <= maxBytes) return text;
  return text.slice(0, new TextEncoder().encodeInto(text, new Uint8Array(maxBytes)).read);
}

/** The API's MicroTime wants six digits. */
const microTime = (time: number): string => new Date(time).toISOString().replace('Z', '000Z');
