import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import { WorkQueue } from '../../../../src/runtime/queue/index.ts';

const initialBackoffMs = 1;
const maxBackoffMs = 50;

/** What the queue promises, said as plainly as can be: lists that are searched, and a clock that is moved. */
class QueueModel {
  readonly waiting: string[] = [];
  readonly working: string[] = [];
  /** Every key that was given to a worker, in order. */
  readonly handedOut: string[] = [];
  #again: string[] = [];
  #timers: { readonly key: string; readonly dueMs: number }[] = [];
  readonly #failures = new Map<string, number>();
  #idle = 0;
  #nowMs = 0;

  add(key: string): void {
    if (this.working.includes(key)) this.#again.push(key);
    else if (!this.waiting.includes(key)) this.waiting.push(key);
    this.#handOut();
  }

  addAfter(key: string, delayMs: number): void {
    const dueMs = this.#nowMs + delayMs;
    if (this.#timers.some((timer) => timer.key === key && timer.dueMs <= dueMs)) return;
    this.#timers = [...this.#timers.filter((timer) => timer.key !== key), { key, dueMs }];
  }

  addRateLimited(key: string): void {
    const failures = this.#failures.get(key) ?? 0;
    this.#failures.set(key, failures + 1);
    this.addAfter(key, Math.min(initialBackoffMs * 2 ** failures, maxBackoffMs));
  }

  forget(key: string): void {
    this.#failures.delete(key);
  }

  next(): void {
    this.#idle += 1;
    this.#handOut();
  }

  done(key: string): void {
    this.working.splice(this.working.indexOf(key), 1);
    const wanted = this.#again.includes(key);
    this.#again = this.#again.filter((each) => each !== key);
    if (wanted) this.add(key);
  }

  wait(timeMs: number): void {
    this.#nowMs += timeMs;
    const due = this.#timers.filter(({ dueMs }) => dueMs <= this.#nowMs).sort((a, b) => a.dueMs - b.dueMs);
    this.#timers = this.#timers.filter((timer) => !due.includes(timer));
    for (const { key } of due) this.add(key);
  }

  #handOut(): void {
    const [key] = this.waiting;
    if (this.#idle === 0 || key === undefined) return;
    this.#idle -= 1;
    this.waiting.shift();
    this.working.push(key);
    this.handedOut.push(key);
  }
}

const key = fc.constantFrom('a', 'b', 'c', 'd');
const timeMs = fc.integer({ min: 1, max: 40 });
const operation = fc.oneof(
  fc.record({ type: fc.constant('add' as const), key }),
  fc.record({ type: fc.constant('addAfter' as const), key, timeMs }),
  fc.record({ type: fc.constant('addRateLimited' as const), key }),
  fc.record({ type: fc.constant('forget' as const), key }),
  fc.record({ type: fc.constant('next' as const) }),
  fc.record({ type: fc.constant('done' as const), which: fc.nat(10) }),
  fc.record({ type: fc.constant('wait' as const), timeMs }),
);
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;

beforeEach(() => {
  jest.useFakeTimers();
  // No jitter: the model has none.
  jest.spyOn(Math, 'random').mockReturnValue(0);
});
afterEach(() => {
  jest.useRealTimers();
  jest.restoreAllMocks();
});

test('after any sequence of operations the queue has done what the model does', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { maxLength: 80 }), async (operations) => {
      const queue = new WorkQueue({ initialBackoffMs, maxBackoffMs });
      const model = new QueueModel();
      const handedOut: string[] = [];
      const perform = (step: Operation): void => {
        switch (step.type) {
          case 'add':
          case 'addRateLimited':
          case 'forget':
            queue[step.type](step.key);
            model[step.type](step.key);
            return;
          case 'addAfter':
            queue.addAfter(step.key, step.timeMs);
            model.addAfter(step.key, step.timeMs);
            return;
          case 'next':
            void queue.next().then((given) => given !== undefined && handedOut.push(given));
            model.next();
            return;
          case 'done': {
            const finished = model.working[step.which % Math.max(model.working.length, 1)];
            if (finished === undefined) return;
            queue.done(finished);
            model.done(finished);
            return;
          }
          case 'wait':
            jest.advanceTimersByTime(step.timeMs);
            model.wait(step.timeMs);
        }
      };
      for (const step of operations) {
        perform(step);
        await Promise.resolve();
        expect(handedOut).toEqual(model.handedOut);
        expect(queue.depth).toBe(model.waiting.length);
        expect(new Set(model.working).size).toBe(model.working.length);
      }
      queue.close();
      expect(jest.getTimerCount()).toBe(0);
    }),
    { numRuns: 300 },
  );
});
