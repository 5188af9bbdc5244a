import { nextTurn } from '../pause.ts';
import type { Outcome, ReportingObject } from './outcome.ts';
import type { Result } from './result.ts';

/**
 * How a reconcile of {@link defineController} ends:
 * - an outcome, which is reported;
 * - `requeueAfterMs` alone: the key runs again after this delay, and the status stays as it is;
 * - nothing: there is nothing to say, and an event will enqueue the key.
 */
export type Ending<R extends string = string, T extends ReportingObject = ReportingObject> =
  | Outcome<R, T>
  | { readonly requeueAfterMs: number }
  | undefined
  // biome-ignore lint/suspicious/noConfusingVoidType: what an async function without a return statement returns
  | void;

/** Thrown by `apply` and `createOnce` to end the reconcile with an outcome; without one, because the object is not current. */
export class ReconcileEnd extends Error {
  override readonly name = 'ReconcileEnd';
  readonly outcome: Outcome<string, ReportingObject> | undefined;

  constructor(outcome: Outcome<string, ReportingObject> | undefined) {
    super(outcome === undefined ? 'the object has changed, or is gone' : `${outcome.reason}: ${outcome.message}`);
    this.outcome = outcome;
  }
}

/** The code of a reconcile has caught the error with which `apply` or `createOnce` has ended it. */
export class EndIgnoredError extends Error {
  override readonly name = 'EndIgnoredError';

  constructor(end: ReconcileEnd) {
    super(
      `the reconcile caught the error that ends it (${end.message}): rethrow what apply, applyAll and createOnce throw, or call tryApply and tryCreateOnce`,
      { cause: end },
    );
  }
}

/** The calls that the code of one reconcile has made through its context. */
export class ReconcileCalls {
  /** What the code has reported itself, for the queue. */
  reported: Result | undefined;
  readonly #inFlight = new Set<Promise<unknown>>();
  #end: ReconcileEnd | undefined;
  #isOver = false;

  /** Makes a call. Rejects once the reconcile has ended: the code has not awaited what it began. */
  async make<A>(call: () => Promise<A>): Promise<A> {
    if (this.#isOver) throw new Error('the reconcile has ended: await each call of its context');
    const running = call();
    this.#inFlight.add(running);
    try {
      return await running;
    } catch (error) {
      if (error instanceof ReconcileEnd) this.#end ??= error;
      throw error;
    } finally {
      this.#inFlight.delete(running);
    }
  }

  /**
   * Runs the code of a reconcile. If a call ends it, or it fails, the calls that it has made beside that one finish first.
   *
   * @throws what the code throws; EndIgnoredError if it returns although a call has ended the reconcile.
   */
  async run<A>(code: () => Promise<A>): Promise<A | ReconcileEnd['outcome']> {
    try {
      const ending = await code();
      await this.#finish();
      if (this.#end === undefined) return ending;
    } catch (error) {
      // With Promise.all the first error arrives here while the other calls still run, and what follows them.
      await nextTurn();
      await this.#finish();
      if (error instanceof ReconcileEnd) return error.outcome;
      throw error;
    }
    throw new EndIgnoredError(this.#end);
  }

  async #finish(): Promise<void> {
    while (this.#inFlight.size > 0) {
      await Promise.allSettled(this.#inFlight);
      await nextTurn();
    }
    this.#isOver = true;
  }
}
