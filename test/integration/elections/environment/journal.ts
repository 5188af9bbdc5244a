import { openSync, writeSync } from 'node:fs';
import { readFile } from 'node:fs/promises';

/**
 * A line of a candidate's journal. `at` is CLOCK_MONOTONIC, in milliseconds. A candidate has a new identity each time
 * it contends for a lock.
 */
export type JournalLine =
  | { readonly type: 'leading'; readonly lock: string; readonly identity: string; readonly at: number }
  | { readonly type: 'ended'; readonly lock: string; readonly identity: string; readonly at: number }
  /** A leader is about to write the first byte of a request to the socket. */
  | {
      readonly type: 'begun';
      readonly lock: string;
      readonly identity: string;
      /** When it passed the fence. */
      readonly passedAt: number;
      readonly at: number;
    }
  /** The candidate's informer has delivered a marked object. */
  | { readonly type: 'mark'; readonly mark: string; readonly at: number }
  /** The wall clock has changed against the monotonic one. */
  | { readonly type: 'clock'; readonly byMs: number; readonly at: number };

/** {@link Journal.write} passes each line to the kernel before it returns, so that a kill loses none. */
export class Journal {
  readonly #file: number;

  constructor(path: string) {
    this.#file = openSync(path, 'a');
  }

  write(line: JournalLine): void {
    writeSync(this.#file, `${JSON.stringify(line)}\n`);
  }
}

export async function readJournal(path: string): Promise<readonly JournalLine[]> {
  // The last line may be incomplete.
  const lines = (await readFile(path, 'utf8')).split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as JournalLine);
}
