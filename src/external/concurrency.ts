/**
 * A signal that is aborted when the first of several signals is aborted. Dispose of it to detach it from the others. A
 * signal of AbortSignal.any cannot be detached: if it has a listener, Node keeps it as long as one of the others lives.
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
 * Waits for a result until the signal is aborted. Does not stop the work behind the result, because others may wait for
 * it too.
 *
 * @throws the rejection of the result; the reason of the signal.
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

/** Runs one operation per key at a time, in the order of the calls. Operations of different keys run concurrently. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  /** @throws any error of the work; the reason of the signal if it is aborted before the work begins. */
  async run<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const ended = Promise.withResolvers<void>();
    const last = Promise.all([before, ended.promise]);
    this.#last.set(key, last);
    try {
      if (before !== undefined) await untilAborted(before, signal);
      signal.throwIfAborted();
      return await work();
    } finally {
      ended.resolve();
      void last.then(() => {
        if (this.#last.get(key) === last) this.#last.delete(key);
      });
    }
  }
}
