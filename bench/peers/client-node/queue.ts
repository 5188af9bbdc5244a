/** Keys to work on: each once, and never one key by two workers. */
export class Queue {
  readonly #waiting = new Set<string>();
  readonly #working = new Set<string>();
  readonly #idle: (() => void)[] = [];

  add(key: string): void {
    this.#waiting.add(key);
    this.#idle.shift()?.();
  }

  /** Works for ever, one key at a time; a key whose work failed comes back after a second. */
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
        // It may have come back while it was worked on.
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
