import { Event } from '../built-in-kinds/built-in-kinds.ts';
import { isNamespaceTerminating, isNotFound } from '../client/api-error.ts';
import type { Client } from '../client/client.ts';
import type { Gate } from '../client/gate.ts';
import { apiVersionOf, type Kind } from '../kind/kind.ts';
import { microTime } from '../kind/micro-time.ts';
import { type KubeObject, keyOf, type Manifest } from '../kind/object.ts';
import type { Logger } from '../shared/logger.ts';
import { pause } from '../shared/pause.ts';
import { EventHistory, type EventLimits, type EventSeries } from './event-history.ts';
import { EventWriteQueue } from './event-write-queue.ts';

/** The content of an Event. */
export interface EventNotice {
  readonly type: 'Normal' | 'Warning';
  /** One CamelCase word: why the action was taken. */
  readonly reason: string;
  /** One CamelCase word: what the controller did. */
  readonly action: string;
  /** An explanation for people. Truncated at 1,024 bytes, the API's limit. */
  readonly note: string;
}

/** Options of an {@link EventRecorder}. */
export interface EventRecorderOptions extends EventLimits {
  readonly client: Client;
  /** The reporting controller, a qualified name: `echoperator.mmontes.io/echo`. */
  readonly controller: string;
  /** The reporting instance: the pod's name. */
  readonly instance: string;
  readonly log: Logger;
  /** The client's gate. When it closes, queued Events are dropped without a log line for each. Default: no gate. */
  readonly gate?: Gate | undefined;
  /**
   * A series ends, and its last count is written, after this time without an Event. Default 360,000, as in client-go.
   */
  readonly seriesSilenceMs?: number;
  /**
   * How often the count of a continuing series is written, before the API server expires its Event. Default 1,800,000.
   */
  readonly seriesRefreshMs?: number;
  /** The maximum number of queued writes, which limits the memory; further Events are dropped. Default 20,000. */
  readonly maxWaiting?: number;
}

/** An Event with the count of its repetitions. Kept small, because there are thousands. */
interface Series extends EventSeries {
  /** The uid of the object. */
  readonly uid: string;
  readonly name: string;
  readonly namespace: string;
  count: number;
  /** The last occurrence, in milliseconds since 1970. */
  lastObserved: number;
  /** The last occurrence by performance.now, which is independent of clock changes. */
  lastObservedMs: number;
  /** The count that the API server has; 0 until the Event is created. */
  writtenCount: number;
  writtenMs: number;
  isWriting: boolean;
}

/**
 * Writes Events in the background: callers never wait, and a failure is only logged.
 *
 * - At most four writes run concurrently, so that reconciles take precedence in a storm. At most 20,000 writes are
 *   queued.
 * - A repeated Event (same object, type, reason, action and note) joins a series. The second occurrence turns the Event
 *   into a series. Later occurrences are only counted. The count is written when the series ends, and every half hour
 *   while it continues. client-go (tools/events) does the same, but compares the object's resourceVersion instead of
 *   the note.
 * - An object may have 25 Events in a burst and one more every five minutes. Further Events are dropped, which is
 *   logged once. client-go does the same (tools/record, EventSourceObjectSpamFilter).
 * - Only the 4,096 objects with the latest Events are remembered.
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
  readonly #history: EventHistory<Series>;
  readonly #writes = new EventWriteQueue();
  /**
   * A random part of each Event name, so that no two recorders create the same name. Uses the global `crypto`, because
   * a simulation cannot seed the random numbers of `node:crypto`.
   */
  readonly #recorderId = crypto.randomUUID().replace('-', '').slice(0, 10);
  #createdCount = 0;
  /** The number of Events dropped because the queue is full. */
  #dropped = 0;
  #sweepTimer: NodeJS.Timeout | undefined;

  constructor(options: EventRecorderOptions) {
    this.#client = options.client;
    this.#controller = options.controller;
    this.#instance = options.instance;
    this.#log = options.log;
    this.#gate = options.gate;
    this.#silenceMs = options.seriesSilenceMs ?? 360_000;
    this.#refreshMs = options.seriesRefreshMs ?? 1_800_000;
    this.#maxWaiting = options.maxWaiting ?? 20_000;
    this.#history = new EventHistory(options, (series) => this.#writeCount(series));
  }

  /** Queues an Event about `object`, in the object's namespace. Returns at once and never throws. */
  record(kind: Kind, object: KubeObject, notice: EventNotice): void {
    const events = this.#history.eventsOf(object.metadata.uid);
    const known = events.find(notice);
    if (known !== undefined) {
      this.#repeat(known);
      return;
    }
    if (!this.#hasRoom(notice)) return;
    if (!events.takeToken()) {
      if (events.dropped === 1)
        this.#log.warn(
          { object: keyOf(object), reason: notice.reason },
          'too many events about one object: dropping further events',
        );
      return;
    }
    const happenedAt = Date.now();
    const series: Series = {
      type: notice.type,
      reason: notice.reason,
      action: notice.action,
      note: notice.note,
      uid: object.metadata.uid,
      name: this.#eventName(object.metadata.name),
      // The API requires this namespace for Events about cluster-scoped objects.
      namespace: object.metadata.namespace ?? 'default',
      count: 1,
      lastObserved: happenedAt,
      lastObservedMs: performance.now(),
      writtenCount: 0,
      writtenMs: 0,
      isWriting: false,
    };
    events.add(series);
    this.#enqueue(series, () => this.#create(series, this.#event(kind, object, series, happenedAt)));
    this.#scheduleSweep();
  }

  /** How many writes are queued or in flight. */
  get waiting(): number {
    return this.#writes.size;
  }

  /**
   * Writes the current counts of all series. Resolves when all Events recorded so far are written or have failed, or
   * after the timeout.
   */
  async flush(timeoutMs: number): Promise<void> {
    const done = new AbortController();
    const timeout = pause(timeoutMs, done.signal);
    const written = this.#writes.waitUntilIdle().then(() => {
      for (const series of this.#history.series()) this.#writeCount(series);
      return this.#writes.waitUntilIdle();
    });
    await Promise.race([written, timeout]);
    done.abort();
  }

  /** True if the queue has room. Logs when the recorder starts and stops dropping Events. */
  #hasRoom({ reason }: Pick<EventNotice, 'reason'>): boolean {
    if (this.#writes.size < this.#maxWaiting) {
      if (this.#dropped > 0) this.#log.warn({ dropped: this.#dropped }, 'recording events again');
      this.#dropped = 0;
      return true;
    }
    this.#dropped += 1;
    if (this.#dropped === 1) this.#log.warn({ reason }, 'too many events are queued: dropping further events');
    return false;
  }

  #repeat(series: Series): void {
    series.count += 1;
    series.lastObserved = Date.now();
    series.lastObservedMs = performance.now();
    // Write the second occurrence at once: it turns the Event into a series.
    if (series.writtenCount === 1) this.#writeCount(series);
  }

  /** Queues a write of the count, unless the API server has it or a write is in flight. */
  #writeCount(series: Series): void {
    const isDue = series.writtenCount > 0 && series.count > series.writtenCount && !series.isWriting;
    if (isDue && this.#hasRoom(series)) this.#enqueue(series, () => this.#patch(series));
  }

  get #isClosed(): boolean {
    return this.#gate?.signal.aborted ?? false;
  }

  #enqueue(series: Series, write: () => Promise<void>): void {
    series.isWriting = true;
    this.#writes.add(async () => {
      try {
        if (!this.#isClosed) await write();
      } catch (error) {
        const details = { err: error, reason: series.reason };
        // The Event would be deleted with its namespace.
        if (isNamespaceTerminating(error))
          this.#log.debug(details, 'cannot write an event: its namespace is terminating');
        else if (!this.#isClosed) this.#log.warn(details, 'failed to write an event');
      } finally {
        series.isWriting = false;
      }
    });
  }

  async #create(series: Series, manifest: Manifest<Event>): Promise<void> {
    try {
      await this.#client.create(Event, manifest);
      this.#markWritten(series, 1);
    } catch (error) {
      // Forget the series, so that the next occurrence creates an Event.
      this.#history.remove(series.uid, series);
      throw error;
    }
    // The Event occurred again during the create.
    if (series.count > 1) await this.#patch(series);
  }

  async #patch(series: Series): Promise<void> {
    const { name, namespace, count, lastObserved } = series;
    const body = { series: { count, lastObservedTime: microTime(new Date(lastObserved)) } };
    try {
      await this.#client.patch(Event, { name, namespace }, { type: 'merge', body });
      this.#markWritten(series, count);
    } catch (error) {
      if (!isNotFound(error)) throw error;
      // The Event was deleted. Forget the series, so that the next occurrence creates an Event.
      this.#history.remove(series.uid, series);
    }
  }

  #markWritten(series: Series, count: number): void {
    series.writtenCount = count;
    series.writtenMs = performance.now();
  }

  /** Uses one timer for all series, and none while the history is empty. The timer does not keep the process alive. */
  #scheduleSweep(): void {
    this.#sweepTimer ??= setTimeout(() => {
      this.#sweepTimer = undefined;
      const nowMs = performance.now();
      const isOver = (series: Series): boolean => nowMs - series.lastObservedMs >= this.#silenceMs;
      for (const series of this.#history.series()) {
        if (isOver(series) || nowMs - series.writtenMs >= this.#refreshMs) this.#writeCount(series);
      }
      this.#history.prune((series) => !series.isWriting && isOver(series));
      if (this.#history.size > 0) this.#scheduleSweep();
    }, this.#silenceMs).unref();
  }

  /** Returns a valid object name: at most 253 characters, and each part ends in a letter or a digit. */
  #eventName(objectName: string): string {
    this.#createdCount += 1;
    const suffix = `${this.#recorderId}${this.#createdCount.toString(16).padStart(6, '0')}`;
    return `${objectName.slice(0, 230).replace(/[^a-z0-9]+$/, '')}.${suffix}`;
  }

  #event(kind: Kind, object: KubeObject, series: Series, happenedAt: number): Manifest<Event> {
    const { uid, resourceVersion } = object.metadata;
    return {
      metadata: { name: series.name, namespace: series.namespace },
      eventTime: microTime(new Date(happenedAt)),
      type: series.type,
      reason: series.reason,
      action: series.action,
      note: truncateUtf8(series.note, 1024),
      reportingController: this.#controller,
      reportingInstance: this.#instance,
      regarding: { apiVersion: apiVersionOf(kind), kind: kind.kind, ...keyOf(object), uid, resourceVersion },
    };
  }
}

/** Truncates a text to a number of bytes, at the end of a character. */
function truncateUtf8(text: string, maxBytes: number): string {
  // In UTF-8, a UTF-16 code unit takes at most three bytes.
  if (text.length * 3 <= maxBytes) return text;
  return text.slice(0, new TextEncoder().encodeInto(text, new Uint8Array(maxBytes)).read);
}
