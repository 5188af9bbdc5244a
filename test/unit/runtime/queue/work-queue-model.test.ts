import type { Priority } from '@echoperator/runtime/controller';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { WorkQueue } from '../../../../packages/runtime/src/queue/work-queue.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';

const initialBackoffMs = 1;
const maxBackoffMs = 50;
const retriesPerSecond = 100;
const retryBurst = 1;

const byUrgency = ['normal', 'low'] as const;

const moreUrgent = (...priorities: readonly (Priority | undefined)[]): Priority =>
  byUrgency.find((each) => priorities.includes(each)) ?? 'low';

/** What the queue promises, said as plainly as can be: lists that are searched, and a clock that is moved. */
class QueueModel {
  waiting: { readonly key: string; readonly priority: Priority }[] = [];
  working: { readonly key: string; readonly priority: Priority }[] = [];
  /** Every key that was given to a worker, in order. */
  readonly handedOut: string[] = [];
  /** The namespaces of what waits, in the order of their turns. */
  readonly #turns: Record<Priority, string[]> = { normal: [], low: [] };
  /** The priorities of what was handed out since a low key had its turn or none waited. */
  #passed = 0;
  #again: { readonly key: string; readonly priority: Priority }[] = [];
  #timers: { readonly key: string; readonly dueMs: number; priority: Priority }[] = [];
  readonly #failures = new Map<string, number>();
  /** By namespace, as long as one of its keys has failures. */
  readonly #tokens = new Map<string, number>();
  #idle = 0;
  #nowMs = 0;

  add(key: string, priority: Priority): void {
    const found = this.waiting.find((each) => each.key === key);
    if (this.working.some((each) => each.key === key)) this.#again.push({ key, priority });
    else if (found === undefined) this.#wait(key, priority);
    else if (moreUrgent(found.priority, priority) !== found.priority) {
      this.#unwait(key);
      this.#wait(key, priority);
    }
  }

  addAfter(key: string, delayMs: number, priority: Priority): void {
    const pending = this.#timers.find((timer) => timer.key === key);
    const dueMs = this.#nowMs + delayMs;
    if (pending !== undefined && pending.dueMs <= dueMs) {
      // It keeps its place among the timers of its time.
      pending.priority = moreUrgent(priority, pending.priority);
      return;
    }
    const others = this.#timers.filter((timer) => timer.key !== key);
    this.#timers = [...others, { key, dueMs, priority: moreUrgent(priority, pending?.priority) }];
  }

  addRateLimited(key: string): void {
    const failures = this.#failures.get(key) ?? 0;
    this.#failures.set(key, failures + 1);
    const left = (this.#tokens.get(namespaceOf(key)) ?? retryBurst) - 1;
    const tokens = Math.max(left, (-maxBackoffMs / 1000) * retriesPerSecond);
    this.#tokens.set(namespaceOf(key), tokens);
    const bucketMs = Math.max(0, Math.ceil((-tokens / retriesPerSecond) * 1000 - 1e-6));
    const backoffMs = Math.min(initialBackoffMs * 2 ** failures, maxBackoffMs);
    const priority = this.working.find((each) => each.key === key)?.priority ?? 'normal';
    this.addAfter(key, Math.max(bucketMs, backoffMs), priority);
  }

  forget(key: string): void {
    this.#failures.delete(key);
    const isBeside = (other: string): boolean => namespaceOf(other) === namespaceOf(key);
    if (![...this.#failures.keys()].some(isBeside)) this.#tokens.delete(namespaceOf(key));
  }

  next(): void {
    this.#idle += 1;
    this.settle();
  }

  /** Idle workers take keys after the step that added them: the most urgent first. */
  settle(): void {
    while (this.#idle > 0 && this.waiting.length > 0) this.#handOut();
  }

  done(key: string): void {
    this.working = this.working.filter((each) => each.key !== key);
    const wanted = this.#again.filter((each) => each.key === key);
    this.#again = this.#again.filter((each) => each.key !== key);
    if (wanted.length > 0) this.add(key, moreUrgent(...wanted.map(({ priority }) => priority)));
  }

  wait(timeMs: number): void {
    for (let passedMs = 0; passedMs < timeMs; passedMs += 1) {
      this.#nowMs += 1;
      for (const [namespace, tokens] of this.#tokens) {
        this.#tokens.set(namespace, Math.min(tokens + retriesPerSecond / 1000, retryBurst));
      }
      const due = this.#timers.filter(({ dueMs }) => dueMs <= this.#nowMs);
      this.#timers = this.#timers.filter((timer) => !due.includes(timer));
      for (const { key, priority } of due) this.add(key, priority);
    }
  }

  #wait(key: string, priority: Priority): void {
    this.waiting.push({ key, priority });
    const turns = this.#turns[priority];
    if (!turns.includes(namespaceOf(key))) turns.push(namespaceOf(key));
  }

  #unwait(key: string): void {
    this.waiting = this.waiting.filter((each) => each.key !== key);
    for (const priority of byUrgency) {
      const has = (namespace: string) =>
        this.waiting.some((each) => each.priority === priority && namespaceOf(each.key) === namespace);
      this.#turns[priority] = this.#turns[priority].filter(has);
    }
  }

  #handOut(): void {
    const [normal, low] = [this.#first('normal'), this.#first('low')];
    const next = low !== undefined && (normal === undefined || this.#passed === 32) ? low : normal;
    if (next === undefined) return;
    this.#idle -= 1;
    const turns = this.#turns[next.priority];
    turns.push(...turns.splice(0, 1));
    this.#unwait(next.key);
    this.#passed = next.priority === 'low' || low === undefined ? 0 : this.#passed + 1;
    this.working.push(next);
    this.handedOut.push(next.key);
  }

  #first(priority: Priority) {
    const [namespace] = this.#turns[priority];
    return this.waiting.find((each) => each.priority === priority && namespaceOf(each.key) === namespace);
  }
}

const namespaceOf = (key: string): string => (key.includes('/') ? (key.split('/')[0] as string) : '');

const key = fc.constantFrom('a/1', 'a/2', 'a/3', 'b/1', 'b/2', 'cluster-scoped');
const priority = fc.constantFrom<Priority>('normal', 'low');
const timeMs = fc.integer({ min: 1, max: 40 });
const operation = fc.oneof(
  { weight: 4, arbitrary: fc.record({ type: fc.constant('add' as const), key, priority }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('addAfter' as const), key, timeMs, priority }) },
  { weight: 4, arbitrary: fc.record({ type: fc.constant('addRateLimited' as const), key }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('forget' as const), key }) },
  { weight: 4, arbitrary: fc.record({ type: fc.constant('next' as const), times: fc.constant(1) }) },
  { weight: 4, arbitrary: fc.record({ type: fc.constant('done' as const), which: fc.nat(10) }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('wait' as const), timeMs }) },
  // Enough for those of low priority to have their turn.
  { weight: 3, arbitrary: fc.record({ type: fc.constant('flood' as const), count: fc.integer({ min: 20, max: 50 }) }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('next' as const), times: fc.integer({ min: 20, max: 50 }) }) },
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

test('any sequence of operations has the same result as on the model', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { maxLength: 80 }), async (operations) => {
      const queue = new WorkQueue({ initialBackoffMs, maxBackoffMs, retriesPerSecond, retryBurst });
      const model = new QueueModel();
      const handedOut: string[] = [];
      let floods = 0;
      const perform = (step: Operation): void => {
        switch (step.type) {
          case 'add':
            queue.add(step.key, { priority: step.priority });
            model.add(step.key, step.priority);
            return;
          case 'flood':
            floods += 1;
            for (let i = 0; i < step.count; i += 1) {
              queue.add(`${i % 2}/${floods}-${i}`);
              model.add(`${i % 2}/${floods}-${i}`, 'normal');
            }
            return;
          case 'addRateLimited':
          case 'forget':
            queue[step.type](step.key);
            model[step.type](step.key);
            return;
          case 'addAfter':
            queue.addAfter(step.key, step.timeMs, { priority: step.priority });
            model.addAfter(step.key, step.timeMs, step.priority);
            return;
          case 'next':
            for (let i = 0; i < step.times; i += 1) {
              void queue.next().then((given) => given !== undefined && handedOut.push(given));
              model.next();
            }
            return;
          case 'done': {
            const finished = model.working[step.which % Math.max(model.working.length, 1)]?.key;
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
        model.settle();
        // A worker that waited is told of its key, and tells us.
        for (let turn = 0; turn < 4; turn += 1) await Promise.resolve();
        expect(handedOut).toEqual(model.handedOut);
        expect(queue.depth).toBe(model.waiting.length);
        expect(new Set(model.working.map((each) => each.key)).size).toBe(model.working.length);
      }
      queue.close();
      expect(queue.depth).toBe(0);
      expect(jest.getTimerCount()).toBe(0);
    }),
    { numRuns: 500 },
  );
});
