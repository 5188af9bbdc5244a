/** What a signal ends. */
export interface Cancellable {
  cancel(reason: Error): void;
}

/**
 * Ends what is under way when its signal is aborted. Many requests share one signal, a controller's, and come and go by
 * the thousand: each signal has one listener here, where to add one for each request and to remove it again would cost
 * as much as half of what else a request does before it is sent.
 */
export class Cancellations {
  readonly #bySignal = new WeakMap<AbortSignal, Set<Cancellable>>();

  add(signal: AbortSignal, cancellable: Cancellable): void {
    if (signal.aborted) {
      cancellable.cancel(signal.reason);
      return;
    }
    const known = this.#bySignal.get(signal);
    if (known !== undefined) {
      known.add(cancellable);
      return;
    }
    const cancellables = new Set([cancellable]);
    this.#bySignal.set(signal, cancellables);
    // It holds the set and not this: a signal that lives on keeps nothing else alive.
    signal.addEventListener('abort', () => cancelAll(cancellables, signal.reason), { once: true });
  }

  delete(signal: AbortSignal, cancellable: Cancellable): void {
    this.#bySignal.get(signal)?.delete(cancellable);
  }
}

function cancelAll(cancellables: ReadonlySet<Cancellable>, reason: Error): void {
  for (const cancellable of [...cancellables]) cancellable.cancel(reason);
}
