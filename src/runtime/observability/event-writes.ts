/** So many Events are written at once: they come second to the work, whose requests share the way to the server. */
const concurrency = 4;

/** Writes in the order in which they were asked for, a few at a time. */
export class EventWrites {
  #waiting: (() => Promise<void>)[] = [];
  /** How many of {@link #waiting} have begun. */
  #begun = 0;
  #underWay = 0;
  #idle = Promise.withResolvers<void>();

  /** Those that have not ended. */
  get size(): number {
    return this.#waiting.length - this.#begun + this.#underWay;
  }

  /** @param write begins a write; it must not reject. */
  add(write: () => Promise<void>): void {
    this.#waiting.push(write);
    this.#beginNext();
  }

  /** Resolves when none is left. */
  async settled(): Promise<void> {
    while (this.size > 0) await this.#idle.promise;
  }

  #beginNext(): void {
    while (this.#underWay < concurrency) {
      const write = this.#waiting[this.#begun];
      if (write === undefined) break;
      this.#begun += 1;
      this.#underWay += 1;
      void write().finally(() => this.#ended());
    }
    // Those that have begun are let go when they are half of all: so a write is moved once at the most, on average.
    if (this.#begun * 2 < this.#waiting.length) return;
    this.#waiting = this.#waiting.slice(this.#begun);
    this.#begun = 0;
  }

  #ended(): void {
    this.#underWay -= 1;
    this.#beginNext();
    if (this.size > 0) return;
    this.#idle.resolve();
    this.#idle = Promise.withResolvers<void>();
  }
}
