/** What a signal ends. */
export interface Cancellable {
  cancel(reason: Error): void;
}

/** What is under way with one signal, and the listener that it has there. */
interface Group {
  readonly cancellables: Set<Cancellable>;
  readonly listener: () => void;
}

/**
 * Ends what is under way when its signal is aborted. Many requests share one signal, a controller's, and come and go by
 * the thousand: each signal has one listener here, where to add one for each request and to remove it again would cost
 * as much as half of what else a request does before it is sent.
 *
 * The listener goes with the last request: Node keeps a signal made by AbortSignal.any alive for as long as it has one.
 */
export class Cancellations {
  readonly #bySignal = new WeakMap<AbortSignal, Group>();

  add(signal: AbortSignal, cancellable: Cancellable): void {
    if (signal.aborted) {
      cancellable.cancel(signal.reason);
      return;
    }
    const group = this.#bySignal.get(signal) ?? this.#group(signal);
    if (group.cancellables.size === 0) signal.addEventListener('abort', group.listener, { once: true });
    group.cancellables.add(cancellable);
  }

  delete(signal: AbortSignal, cancellable: Cancellable): void {
    const group = this.#bySignal.get(signal);
    if (group === undefined || !group.cancellables.delete(cancellable)) return;
    if (group.cancellables.size === 0) signal.removeEventListener('abort', group.listener);
  }

  #group(signal: AbortSignal): Group {
    const cancellables = new Set<Cancellable>();
    // It holds the set and not this: a signal that lives on keeps nothing else alive.
    const group = { cancellables, listener: () => cancelAll(cancellables, signal.reason) };
    this.#bySignal.set(signal, group);
    return group;
  }
}

function cancelAll(cancellables: ReadonlySet<Cancellable>, reason: Error): void {
  for (const cancellable of [...cancellables]) cancellable.cancel(reason);
}
