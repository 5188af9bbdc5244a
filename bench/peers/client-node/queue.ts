/** A work queue. It holds a key once, and at most one worker processes a key. */
export class Queue {
  readonly #waiting = new Set<string>();
  readonly #working = new Set<string>();
  readonly #idle: (() => void)[] = [];

  add(key: string): void {
    this.#waiting.add(key);
    this.#idle.shift()?.();
  }

  /** Runs a worker forever, one key at a time. A key whose reconcile failed is enqueued again after a second. */
  async work(reconcile: (key: string) => Promise<void>, failed: (key: string, error: unknown) => void): Promise<never> {
    for (;;) {
      const key = this.#next();
      if (key === undefined) {
        await new Promise<void>((resolve) => this.#idle.push(resolve));
        continue;
      }
      try {
        await reconcile(key);
      } catch (error) {
        failed(key, error);
        setTimeout(() => this.add(key), 1000);
      } finally {
        this.#working.delete(key);
        // The key may have been enqueued again during its reconcile.
        if (this.#waiting.has(key)) this.#idle.shift()?.();
      }
    }
  }

  #next(): string | undefined {
    for (const key of this.#waiting) {
      if (this.#working.has(key)) continue;
      this.#waiting.delete(key);
      this.#working.add(key);
      return key;
    }
    return undefined;
  }
}
