/** The lines that a failure shows, each with the time since the run began. */
export class Timeline {
  readonly #startedAtMs = performance.now();
  readonly #lines: string[] = [];

  note(line: string): void {
    this.#lines.push(`${((performance.now() - this.#startedAtMs) / 1000).toFixed(3)} s  ${line}`);
  }

  /** One line per note. */
  get text(): string {
    return this.#lines.join('\n');
  }
}
