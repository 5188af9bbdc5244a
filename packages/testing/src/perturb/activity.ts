import { setTimeout as delay } from 'node:timers/promises';

/** What the operators of a run send, and when something last happened. */
export class Activity {
  /** The reads and writes of the operators. */
  readonly #requests: string[] = [];
  #lastAtMs = 0;
  /**
   * Whether the API server has ended or refused a watch since the step began, or since the last rest. The operator
   * lists or watches again.
   */
  #hasEndedWatch = false;
  /** How many {@link #requests} were sent before the first event since the operator rested. */
  #requestsBeforeEvent: number | undefined;

  /** Something happens, so nobody rests. */
  noteActivity(): void {
    this.#lastAtMs = performance.now();
  }

  /** @param description is part of the error of an operator that does not rest */
  sends(description: string): void {
    this.noteActivity();
    this.#requests.push(description);
  }

  receivesEvent(): void {
    this.noteActivity();
    this.#requestsBeforeEvent ??= this.#requests.length;
  }

  watchEnds(): void {
    this.#hasEndedWatch = true;
  }

  stepBegins(): void {
    this.#hasEndedWatch = false;
  }

  /** Whether nothing has happened for this time. */
  isQuiet(forMs: number): boolean {
    return performance.now() - this.#lastAtMs > forMs;
  }

  /**
   * Waits. Returns what the operators have sent meanwhile, and whether they had a reason: an event that came first, or
   * a watch that the API server has ended.
   */
  async observe(forMs: number): Promise<{ readonly sent: readonly string[]; readonly hasReason: boolean }> {
    const requests = this.#requests.length;
    this.#requestsBeforeEvent = undefined;
    await delay(forMs);
    const sent = this.#requests.slice(requests);
    const isAnswer = this.#requestsBeforeEvent === requests;
    const watchesAgain = this.#hasEndedWatch && sent.every((request) => /^(list|watch) /.test(request));
    this.#hasEndedWatch = false;
    return { sent, hasReason: isAnswer || watchesAgain };
  }
}
