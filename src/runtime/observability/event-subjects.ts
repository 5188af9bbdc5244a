/** What tells an object's series apart. */
export interface EventSeries {
  readonly type: string;
  readonly reason: string;
  readonly action: string;
  readonly note: string;
}

/** How many Events an object may have, and of how many objects that is known. */
export interface EventSubjectsOptions {
  /** Events about one object at once. Default 25, as client-go. */
  readonly burst?: number;
  /** After so long it may have one more. Default 300,000, as client-go. */
  readonly refillMs?: number;
  /** Objects that are remembered, those with the latest Events. Default 4,096, as client-go. */
  readonly maxSubjects?: number;
}

/** The objects that had Events of late, each with its series and its token bucket. */
export class EventSubjects<S extends EventSeries> {
  readonly #burst: number;
  readonly #refillMs: number;
  readonly #maxSubjects: number;
  readonly #evicted: (series: S) => void;
  /** By uid, the one used last at the end. */
  readonly #subjects = new Map<string, EventSubject<S>>();

  /** @param evicted told of each series that is forgotten for want of room. */
  constructor(options: EventSubjectsOptions, evicted: (series: S) => void) {
    this.#burst = options.burst ?? 25;
    this.#refillMs = options.refillMs ?? 300_000;
    this.#maxSubjects = options.maxSubjects ?? 4096;
    this.#evicted = evicted;
  }

  get size(): number {
    return this.#subjects.size;
  }

  /** The object of this uid, remembered from now on. */
  of(uid: string): EventSubject<S> {
    const subject = this.#subjects.get(uid) ?? new EventSubject<S>(this.#burst, this.#refillMs);
    this.#subjects.delete(uid);
    this.#subjects.set(uid, subject);
    if (this.#subjects.size > this.#maxSubjects) this.#evictFirst();
    return subject;
  }

  /** Forgets one series. */
  remove(uid: string, series: S): void {
    this.#subjects.get(uid)?.forget((other) => other === series);
  }

  *series(): Iterable<S> {
    for (const subject of this.#subjects.values()) yield* subject.series;
  }

  /** Forgets the series of which `isOver` holds, and the objects that have none and all their tokens. */
  forget(isOver: (series: S) => boolean): void {
    for (const [uid, subject] of this.#subjects) {
      subject.forget(isOver);
      if (subject.isForgettable) this.#subjects.delete(uid);
    }
  }

  #evictFirst(): void {
    for (const [uid, subject] of this.#subjects) {
      this.#subjects.delete(uid);
      for (const series of subject.series) this.#evicted(series);
      return;
    }
  }
}

/** One object's series, and how many more it may begin. */
export class EventSubject<S extends EventSeries> {
  readonly #burst: number;
  readonly #refillMs: number;
  /** No more than the bucket has tokens. */
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

  /** How often {@link take} has said no since it last said yes. */
  get dropped(): number {
    return this.#dropped;
  }

  get isForgettable(): boolean {
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

  forget(isOver: (series: S) => boolean): void {
    if (this.#series.some(isOver)) this.#series = this.#series.filter((series) => !isOver(series));
  }

  /** Takes a token if there is one. */
  take(): boolean {
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
