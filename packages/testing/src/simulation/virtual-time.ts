import { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { pause } from '@echoperator/runtime/internal';

const timersPromises = createRequire(import.meta.url)('node:timers/promises') as {
  setTimeout: unknown;
  setImmediate: unknown;
};

interface Timer {
  readonly handle: Handle;
  readonly dueMs: number;
  /** Timers that are due at the same time fire in this order. */
  readonly order: number;
  readonly everyMs: number | undefined;
  /** Runs a function in the asynchronous context in which the timer was set. */
  readonly inContext: (run: () => void) => void;
  readonly run: () => void;
}

/** What `setTimeout` returns: the parts of Node's class that programs use. */
class Handle {
  readonly #id: number;
  readonly #clear: () => void;
  readonly #refresh: () => void;

  constructor(id: number, clear: () => void, refresh: () => void) {
    this.#id = id;
    this.#clear = clear;
    this.#refresh = refresh;
  }

  /** Node's timers can be converted to numbers, which `clearTimeout` accepts. */
  [Symbol.toPrimitive] = (): number => this.#id;
  ref = (): this => this;
  unref = (): this => this;
  hasRef = (): boolean => true;
  refresh = (): this => {
    this.#refresh();
    return this;
  };
  close = (): this => {
    this.#clear();
    return this;
  };
  [Symbol.dispose] = (): void => this.#clear();
}

/** The error with which the timers of `node:timers/promises` reject. */
class AbortError extends Error {
  override readonly name = 'AbortError';
  readonly code = 'ABORT_ERR';

  constructor(cause: unknown) {
    super('The operation was aborted', { cause });
  }
}

/** Options of {@link VirtualTime}. */
export interface VirtualTimeOptions {
  /** The initial time, in milliseconds since 1970. */
  readonly startMs: number;
  /** Replaces `Math.random`. */
  readonly random: () => number;
}

/**
 * A clock that only its owner advances. It replaces the process's clock, timers and random numbers.
 *
 * It replaces globals of the process, so at most one is installed at a time. Promises, `process.nextTick` and
 * `setImmediate` stay real, because they take no time.
 */
export class VirtualTime {
  static #installed: VirtualTime | undefined;
  readonly #realImmediate = setImmediate;
  readonly #random: () => number;
  readonly #restorers: (() => void)[] = [];
  readonly #timers = new Map<Handle, Timer>();
  #nowMs: number;
  readonly #startMs: number;
  #order = 0;
  #handles = 0;
  readonly #realClearImmediate = clearImmediate;
  /** The immediates that have not run yet. */
  readonly #immediates = new Set<unknown>();

  constructor({ startMs, random }: VirtualTimeOptions) {
    this.#startMs = startMs;
    this.#nowMs = startMs;
    this.#random = random;
  }

  /** Milliseconds since 1970. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** When the next timer is due, in milliseconds since 1970. Undefined if there is none. */
  get nextDueMs(): number | undefined {
    return this.#next()?.dueMs;
  }

  /** @throws Error if another one is installed. */
  install(): void {
    if (VirtualTime.#installed !== undefined)
      throw new Error('a simulation runs in this process already: await its end');
    VirtualTime.#installed = this;
    const RealDate = Date;
    const now = () => this.#nowMs;
    // Use a proxy, so that dates that were created before are instances of it too.
    const VirtualDate = new Proxy(RealDate, {
      apply: () => new RealDate(now()).toString(),
      construct: (target, given, newTarget) =>
        Reflect.construct(target, given.length === 0 ? [now()] : given, newTarget),
      get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
    });
    this.#replace(globalThis, 'Date', VirtualDate);
    this.#replace(performance, 'now', () => this.#nowMs - this.#startMs);
    this.#replace(Math, 'random', this.#random);
    this.#replace(crypto, 'randomUUID', () => this.#randomUuid());
    this.#replace(globalThis, 'setTimeout', (run: () => void, ms?: number, ...args: unknown[]) =>
      this.#set(run, ms, args, false),
    );
    this.#replace(globalThis, 'setInterval', (run: () => void, ms?: number, ...args: unknown[]) =>
      this.#set(run, ms, args, true),
    );
    this.#replace(globalThis, 'clearTimeout', (handle: unknown) => this.#clear(handle));
    this.#replace(globalThis, 'clearInterval', (handle: unknown) => this.#clear(handle));
    this.#replace(globalThis, 'setImmediate', (run: (...args: unknown[]) => void, ...args: unknown[]) =>
      this.#setImmediate(run, args),
    );
    this.#replace(globalThis, 'clearImmediate', (immediate: NodeJS.Immediate) => {
      this.#immediates.delete(immediate);
      this.#realClearImmediate(immediate);
    });
    this.#replace(AbortSignal, 'timeout', (ms: number) => this.#timeoutSignal(ms));
    this.#replace(
      timersPromises,
      'setTimeout',
      async (ms?: number, value?: unknown, options?: { readonly signal?: AbortSignal }) => {
        await pause(ms ?? 0, options?.signal);
        if (options?.signal?.aborted) throw new AbortError(options.signal.reason);
        return value;
      },
    );
    this.#replace(
      timersPromises,
      'setImmediate',
      (value?: unknown) => new Promise((resolve) => setImmediate(resolve, value)),
    );
    syncBuiltinESMExports();
  }

  /** Restores the process's clock and timers. Pending timers never fire. */
  restore(): void {
    VirtualTime.#installed = undefined;
    for (const restore of this.#restorers.splice(0).reverse()) restore();
    syncBuiltinESMExports();
    this.#timers.clear();
  }

  /**
   * Resolves when all promises, ticks and immediates have run. Then nothing happens until a timer fires or something is
   * delivered.
   */
  async quiet(): Promise<void> {
    do {
      await new Promise<void>((resolve) => this.#realImmediate(resolve));
    } while (this.#immediates.size > 0);
  }

  /** Advances to the next timer and runs it. */
  fireNext(): void {
    const timer = this.#next();
    if (timer === undefined) return;
    this.#timers.delete(timer.handle);
    this.advanceTo(timer.dueMs);
    if (timer.everyMs !== undefined) this.#schedule(timer.handle, timer, timer.everyMs);
    timer.inContext(timer.run);
  }

  /** Advances the clock without running timers. The clock never goes back. */
  advanceTo(timeMs: number): void {
    this.#nowMs = Math.max(this.#nowMs, timeMs);
  }

  /**
   * Removes the timers for which `isRemoved` is true. It is called in the asynchronous context in which each timer was
   * set.
   */
  removeTimers(isRemoved: () => boolean): void {
    for (const { handle, inContext } of [...this.#timers.values()]) {
      inContext(() => {
        if (isRemoved()) this.#timers.delete(handle);
      });
    }
  }

  /** @param handle what `setTimeout` returned, or its number */
  #clear(handle: unknown): void {
    if (handle instanceof Handle) this.#timers.delete(handle);
    else for (const each of this.#timers.keys()) if (Number(each) === Number(handle)) this.#timers.delete(each);
  }

  #next(): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers.values()) {
      if (next === undefined || timer.dueMs < next.dueMs || (timer.dueMs === next.dueMs && timer.order < next.order))
        next = timer;
    }
    return next;
  }

  #set(
    callback: (...args: unknown[]) => void,
    ms: number | undefined,
    args: readonly unknown[],
    repeats: boolean,
  ): Handle {
    // As in Node, a delay is at least a millisecond, and a delay that is too long for a timer becomes one millisecond.
    const afterMs = ms !== undefined && ms >= 1 && ms <= 2 ** 31 - 1 ? ms : 1;
    this.#handles += 1;
    const handle: Handle = new Handle(
      this.#handles,
      () => this.#timers.delete(handle),
      () => this.#schedule(handle, timer, afterMs),
    );
    const timer = {
      everyMs: repeats ? afterMs : undefined,
      inContext: AsyncLocalStorage.snapshot(),
      run: () => callback(...args),
    };
    this.#schedule(handle, timer, afterMs);
    return handle;
  }

  #schedule(handle: Handle, timer: Pick<Timer, 'everyMs' | 'inContext' | 'run'>, afterMs: number): void {
    const { everyMs, inContext, run } = timer;
    this.#order += 1;
    this.#timers.set(handle, { handle, everyMs, inContext, run, dueMs: this.#nowMs + afterMs, order: this.#order });
  }

  #setImmediate(run: (...args: unknown[]) => void, args: readonly unknown[]): unknown {
    const immediate = this.#realImmediate(() => {
      this.#immediates.delete(immediate);
      run(...args);
    });
    this.#immediates.add(immediate);
    return immediate;
  }

  #timeoutSignal(ms: number): AbortSignal {
    const controller = new AbortController();
    const abort = () => controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'));
    this.#set(abort, ms, [], false);
    return controller.signal;
  }

  #randomUuid(): string {
    const digits = (count: number) =>
      Array.from({ length: count }, () => Math.floor(this.#random() * 16).toString(16)).join('');
    return `${digits(8)}-${digits(4)}-4${digits(3)}-8${digits(3)}-${digits(12)}`;
  }

  #replace(target: object, name: string, value: unknown): void {
    const original = Object.getOwnPropertyDescriptor(target, name);
    Object.defineProperty(target, name, { value, configurable: true, writable: true, enumerable: true });
    this.#restorers.push(() => {
      if (original === undefined) Reflect.deleteProperty(target, name);
      else Object.defineProperty(target, name, original);
    });
  }
}
