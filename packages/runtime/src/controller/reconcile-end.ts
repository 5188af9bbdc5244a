import { nextTurn } from '../shared/pause.ts';
import type { Outcome, ReportingObject } from './outcome.ts';
import type { Result } from './result.ts';

/**
 * How a reconcile of {@link defineController} ends:
 * - an outcome, which is reported;
 * - `requeueAfterMs` alone: the key is requeued after this delay, and the status stays unchanged;
 * - nothing: there is nothing to report, and an event will enqueue the key.
 */
export type Ending<R extends string = string, T extends ReportingObject = ReportingObject> =
  | Outcome<R, T>
  | { readonly requeueAfterMs: number }
  | undefined
  // biome-ignore lint/suspicious/noConfusingVoidType: what an async function without a return statement returns
  | void;

/**
 * Thrown by `apply` and `createOnce` to end the reconcile with an outcome, or without one because the object is not
 * current.
 */
export class ReconcileEnd extends Error {
  override readonly name = 'ReconcileEnd';
  readonly outcome: Outcome<string, ReportingObject> | undefined;

  constructor(outcome: Outcome<string, ReportingObject> | undefined) {
    super(outcome === undefined ? 'the object has changed, or is gone' : `${outcome.reason}: ${outcome.message}`);
    this.outcome = outcome;
  }
}

/** The code of a reconcile caught the {@link ReconcileEnd} that `apply` or `createOnce` threw. */
export class EndIgnoredError extends Error {
  override readonly name = 'EndIgnoredError';

  constructor(end: ReconcileEnd) {
    super(
      `the reconcile caught the error that ends it (${end.message}): ` +
        'rethrow what apply, applyAll and createOnce throw, or call tryApply and tryCreateOnce',
      { cause: end },
    );
  }
}

/** A call that a reconcile has made through its context, and the call's result. */
interface MadeCall {
  result: Promise<unknown> | undefined;
}

/** The calls that one reconcile makes through its context. */
export class ReconcileCalls {
  /** The result of the last `report`, for the queue. */
  reported: Result | undefined;
  readonly #inFlight = new Set<MadeCall>();
  #end: ReconcileEnd | undefined;
  #isOver = false;

  /** Makes a call. Rejects once the reconcile has ended, because its code has not awaited the call. */
  make<A>(call: () => Promise<A>): Promise<A> {
    const made: MadeCall = { result: undefined };
    this.#inFlight.add(made);
    const result = this.#settle(made, call);
    made.result = result;
    return result;
  }

  async #settle<A>(made: MadeCall, call: () => Promise<A>): Promise<A> {
    try {
      if (this.#isOver) throw new Error('the reconcile has ended: await each call of its context');
      return await call();
    } catch (error) {
      if (error instanceof ReconcileEnd) {
        this.#end ??= error;
        // Avoids an unhandled rejection. `run` throws the error if the code does not await the call.
        made.result?.catch(() => {});
      }
      throw error;
    } finally {
      this.#inFlight.delete(made);
    }
  }

  /**
   * Runs the code of a reconcile. If the code fails, or a call ends it, `run` waits for the calls that are still in
   * flight.
   *
   * @throws what the code throws; the error of a call that the code did not await; EndIgnoredError if the code returns
   *   although a call has ended the reconcile.
   */
  async run<A>(code: () => Promise<A>): Promise<A | ReconcileEnd['outcome']> {
    try {
      const ending = await code();
      const failure = await this.#finish();
      if (failure !== undefined && !(failure.reason instanceof ReconcileEnd)) throw failure.reason;
      if (this.#end === undefined) return ending;
    } catch (error) {
      // With Promise.all the first error arrives here while the other calls, and the code after them, still run.
      await nextTurn();
      await this.#finish();
      if (error instanceof ReconcileEnd) return error.outcome;
      throw error;
    }
    throw new EndIgnoredError(this.#end);
  }

  /** @returns the first failure of the calls that were still in flight. */
  async #finish(): Promise<PromiseRejectedResult | undefined> {
    let failure: PromiseRejectedResult | undefined;
    while (this.#inFlight.size > 0) {
      const results = await Promise.allSettled([...this.#inFlight].map(({ result }) => result));
      failure ??= results.find((result) => result.status === 'rejected');
      await nextTurn();
    }
    this.#isOver = true;
    return failure;
  }
}
