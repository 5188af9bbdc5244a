/**
 * A signal that is aborted with the first of others. AbortSignal.any would be shorter, but leaves a trace of each call with a
 * signal that lives as long as the process. Dispose of this one to remove its listeners.
 */
export class LinkedSignal implements Disposable {
  readonly #controller = new AbortController();
  readonly #others: readonly AbortSignal[];

  constructor(...others: readonly (AbortSignal | undefined)[]) {
    this.#others = others.filter((other) => other !== undefined);
    for (const other of this.#others) other.addEventListener('abort', this.#abort);
    this.#abort();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    for (const other of this.#others) other.removeEventListener('abort', this.#abort);
  }

  readonly #abort = (): void => {
    const first = this.#others.find((other) => other.aborted);
    if (first !== undefined) this.#controller.abort(first.reason);
  };
}

/**
 * Waits for a result until the signal is aborted. The work behind the result goes on: others may wait for it too.
 *
 * @throws what the result rejects with; the signal's reason.
 */
export async function untilAborted<T>(result: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await Promise.race([result, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Runs the work of one key one at a time, in the order of the calls. Other keys do not wait. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  /** How many keys are held or waited for. */
  get size(): number {
    return this.#last.size;
  }

  /** @throws what the work throws; the signal's reason if it is aborted before the work begins. */
  async run<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const ended = Promise.withResolvers<void>();
    const turn = Promise.all([before, ended.promise]);
    this.#last.set(key, turn);
    try {
      if (before !== undefined) await untilAborted(before, signal);
      signal.throwIfAborted();
      return await work();
    } finally {
      ended.resolve();
      void turn.then(() => {
        if (this.#last.get(key) === turn) this.#last.delete(key);
      });
    }
  }
}

/** Runs so many works at once; the others wait, in the order of the calls. */
export class Semaphore {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(count: number) {
    this.#free = count;
  }

  async use<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
