/** Work in flight that an abort signal cancels. */
export interface Cancellable {
  cancel(reason: Error): void;
}

/** The work in flight under one signal, and the listener registered on that signal. */
interface Group {
  readonly cancellables: Set<Cancellable>;
  readonly listener: () => void;
}

/**
 * Cancels work when its signal aborts, with one listener per signal. Thousands of short requests share a controller's
 * signal. One listener per request would cost half as much as all other work before the request is sent.
 *
 * The listener is removed with the last request, because Node keeps a signal made by AbortSignal.any alive as long as
 * it has a listener.
 */
export class SharedAbortListeners {
  readonly #bySignal = new WeakMap<AbortSignal, Group>();

  /** Cancels at once if the signal has already aborted. */
  add(signal: AbortSignal, cancellable: Cancellable): void {
    if (signal.aborted) {
      cancellable.cancel(signal.reason);
      return;
    }
    const group = this.#bySignal.get(signal) ?? this.#createGroup(signal);
    if (group.cancellables.size === 0) signal.addEventListener('abort', group.listener, { once: true });
    group.cancellables.add(cancellable);
  }

  delete(signal: AbortSignal, cancellable: Cancellable): void {
    const group = this.#bySignal.get(signal);
    if (group === undefined || !group.cancellables.delete(cancellable)) return;
    if (group.cancellables.size === 0) signal.removeEventListener('abort', group.listener);
  }

  #createGroup(signal: AbortSignal): Group {
    const cancellables = new Set<Cancellable>();
    // The listener captures the set, not `this`, so a long-lived signal does not keep this object alive.
    const group = { cancellables, listener: () => cancelAll(cancellables, signal.reason) };
    this.#bySignal.set(signal, group);
    return group;
  }
}

function cancelAll(cancellables: ReadonlySet<Cancellable>, reason: Error): void {
  for (const cancellable of [...cancellables]) cancellable.cancel(reason);
}
