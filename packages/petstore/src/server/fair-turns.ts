/**
 * Lets one request proceed in each turn of the event loop, and alternates between clients. So many concurrent requests
 * do not block other work, such as probes, and a client with many requests does not delay the other clients.
 */
export class FairTurns {
  /** By the client's address. The first client has the next turn. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #isScheduled = false;

  /** Waits for a turn. */
  take(client: string): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(client);
      if (waiting === undefined) this.#waiting.set(client, [resolve]);
      else waiting.push(resolve);
      if (!this.#isScheduled) this.#schedule();
    });
  }

  #schedule(): void {
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      const [next] = this.#waiting;
      if (next === undefined) return;
      const [client, waiting] = next;
      const begin = waiting.shift();
      // Move the client behind the others.
      this.#waiting.delete(client);
      if (waiting.length > 0) this.#waiting.set(client, waiting);
      if (this.#waiting.size > 0) this.#schedule();
      begin?.();
    });
  }
}
