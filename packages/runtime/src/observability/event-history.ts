/** The fields that identify a series of Events about one object. */
export interface EventSeries {
  readonly type: string;
  readonly reason: string;
  readonly action: string;
  readonly note: string;
}

/** Limits of the Events about one object, and of the number of remembered objects. */
export interface EventLimits {
  /** The maximum number of Events about one object in a burst. Default 25, as in client-go. */
  readonly burst?: number;
  /** The time after which an object may have one more Event, in milliseconds. Default 300,000, as in client-go. */
  readonly refillMs?: number;
  /**
   * The maximum number of remembered objects; the least recently used one is evicted. Default 4,096, as in client-go.
   */
  readonly maxObjects?: number;
}

/** Remembers the objects with recent Events, and for each its series and its rate limit. */
export class EventHistory<S extends EventSeries> {
  readonly #burst: number;
  readonly #refillMs: number;
  readonly #maxObjects: number;
  readonly #onEvict: (series: S) => void;
  /** By uid, in order of last use. */
  readonly #objects = new Map<string, ObjectEvents<S>>();

  /** @param onEvict called for each series of an evicted object. */
  constructor(limits: EventLimits, onEvict: (series: S) => void) {
    this.#burst = limits.burst ?? 25;
    this.#refillMs = limits.refillMs ?? 300_000;
    this.#maxObjects = limits.maxObjects ?? 4096;
    this.#onEvict = onEvict;
  }

  /** The number of remembered objects. */
  get size(): number {
    return this.#objects.size;
  }

  /** Returns the events of an object, and creates them if necessary. */
  eventsOf(uid: string): ObjectEvents<S> {
    const events = this.#objects.get(uid) ?? new ObjectEvents<S>(this.#burst, this.#refillMs);
    this.#objects.delete(uid);
    this.#objects.set(uid, events);
    if (this.#objects.size > this.#maxObjects) this.#evictOldest();
    return events;
  }

  /** Removes one series. */
  remove(uid: string, series: S): void {
    this.#objects.get(uid)?.removeWhere((other) => other === series);
  }

  *series(): Iterable<S> {
    for (const events of this.#objects.values()) yield* events.series;
  }

  /** Removes the matching series, then the objects without a series whose token bucket is full. */
  prune(isOver: (series: S) => boolean): void {
    for (const [uid, events] of this.#objects) {
      events.removeWhere(isOver);
      if (events.isIdle()) this.#objects.delete(uid);
    }
  }

  #evictOldest(): void {
    for (const [uid, events] of this.#objects) {
      this.#objects.delete(uid);
      for (const series of events.series) this.#onEvict(series);
      return;
    }
  }
}

/** The series of one object, and the token bucket that limits its new series. */
export class ObjectEvents<S extends EventSeries> {
  readonly #burst: number;
  readonly #refillMs: number;
  /** Bounded, because each new series takes a token. */
  #series: readonly S[] = [];
  #tokens: number;
  #refilledMs = performance.now();
  #dropped = 0;

  constructor(burst: number, refillMs: number) {
    this.#burst = burst;
    this.#refillMs = refillMs;
    this.#tokens = burst;
  }

  get series(): readonly S[] {
    return this.#series;
  }

  /** How often {@link takeToken} has returned false since it last returned true. */
  get dropped(): number {
    return this.#dropped;
  }

  /** True if there is no series and the token bucket is full, so that nothing is lost by forgetting the object. */
  isIdle(): boolean {
    this.#refill();
    return this.#series.length === 0 && this.#tokens >= this.#burst;
  }

  find({ type, reason, action, note }: EventSeries): S | undefined {
    return this.#series.find(
      (series) => series.note === note && series.reason === reason && series.action === action && series.type === type,
    );
  }

  add(series: S): void {
    this.#series = [...this.#series, series];
  }

  removeWhere(predicate: (series: S) => boolean): void {
    if (this.#series.some(predicate)) this.#series = this.#series.filter((series) => !predicate(series));
  }

  /** Takes a token and returns true, or returns false if there is none. */
  takeToken(): boolean {
    this.#refill();
    if (this.#tokens < 1) {
      this.#dropped += 1;
      return false;
    }
    this.#tokens -= 1;
    this.#dropped = 0;
    return true;
  }

  #refill(): void {
    const nowMs = performance.now();
    this.#tokens = Math.min(this.#burst, this.#tokens + (nowMs - this.#refilledMs) / this.#refillMs);
    this.#refilledMs = nowMs;
  }
}
