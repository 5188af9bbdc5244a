import type { QueueObserver } from '@echoperator/runtime/process';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { WorkQueue } from '../../../../packages/runtime/src/queue/work-queue.ts';

let queue: WorkQueue;
let setTimeoutSpy: jest.SpiedFunction<typeof setTimeout>;
beforeEach(() => {
  jest.useFakeTimers();
  setTimeoutSpy = jest.spyOn(globalThis, 'setTimeout');
  // No jitter: a pause is what it says.
  jest.spyOn(Math, 'random').mockReturnValue(0);
  queue = new WorkQueue();
});
afterEach(() => {
  queue.close();
  jest.useRealTimers();
  jest.restoreAllMocks();
});

/** Takes what is waiting now, giving nothing back. */
async function taken(from: WorkQueue = queue): Promise<(string | undefined)[]> {
  const keys: (string | undefined)[] = [];
  while (from.depth > 0) keys.push(await from.next());
  return keys;
}

/** How long it takes until the key waits, in milliseconds. */
function pause(limitMs = 200_000): number | undefined {
  for (let waitedMs = 0; waitedMs <= limitMs; waitedMs += 1) {
    if (queue.depth > 0) return waitedMs;
    jest.advanceTimersByTime(1);
  }
  return undefined;
}

describe('keys', () => {
  test('are handed out in the order in which they were added, each once however often it was added', async () => {
    for (const key of ['a', 'b', 'a', 'c', 'b']) queue.add(key);
    expect(queue.depth).toBe(3);
    expect(await taken()).toEqual(['a', 'b', 'c']);
    expect(queue.depth).toBe(0);
  });

  test('added again before a worker takes them keep their position', async () => {
    queue.add('a');
    queue.add('b');
    queue.add('a');
    expect(await queue.next()).toBe('a');
  });

  test('are handed to idle workers in the order in which these asked', async () => {
    const order: string[] = [];
    const first = queue.next().then((key) => order.push(`first ${key}`));
    const second = queue.next().then((key) => order.push(`second ${key}`));
    queue.add('a');
    queue.add('b');
    await Promise.all([first, second]);
    expect(order).toEqual(['first a', 'second b']);
  });

  test('added again before the idle worker that was woken has them are handed out once', async () => {
    const handed = queue.next();
    queue.add('a');
    queue.add('a');
    expect(await handed).toBe('a');
    queue.done('a');
    expect(queue.depth).toBe(0);
  });

  test('added while a worker has them wait until it is done', async () => {
    queue.add('a');
    await queue.next();
    queue.add('a');
    queue.add('a');
    expect(queue.depth).toBe(0);
    queue.done('a');
    expect(queue.depth).toBe(1);
    await queue.next();
    queue.done('a');
    expect(queue.depth).toBe(0);
  });

  test('added while a worker has them do not go to an idle one', async () => {
    queue.add('a');
    await queue.next();
    const idle = jest.fn();
    const waiting = queue.next().then(idle);
    queue.add('a');
    await Promise.resolve();
    expect(idle).not.toHaveBeenCalled();
    queue.done('a');
    await waiting;
    expect(idle).toHaveBeenCalledWith('a');
  });

  test('added again go to the end of the queue', async () => {
    queue.add('a');
    queue.add('b');
    const first = await queue.next();
    queue.add('a');
    queue.done(String(first));
    expect(await taken()).toEqual(['b', 'a']);
  });
});

describe('a key of low priority', () => {
  const low = { priority: 'low' } as const;

  test('is handed out after all keys of normal priority, first in, first out', async () => {
    queue.add('low 1', low);
    queue.add('low 2', low);
    queue.add('a');
    queue.add('b');
    expect(await taken()).toEqual(['a', 'b', 'low 1', 'low 2']);
  });

  test('is raised by an add with normal priority, and not lowered again', async () => {
    queue.add('a', low);
    queue.add('b', low);
    queue.add('c');
    queue.add('b');
    queue.add('b', low);
    expect(queue.depth).toBe(3);
    expect(await taken()).toEqual(['c', 'b', 'a']);
  });

  test('is handed out after 32 keys of normal priority', async () => {
    queue.add('low', low);
    for (let i = 0; i < 40; i += 1) queue.add(`normal ${i}`);
    expect((await taken()).indexOf('low')).toBe(32);
  });

  test('does not profit from keys handed out before it was added', async () => {
    for (let i = 0; i < 80; i += 1) queue.add(`normal ${i}`);
    for (let i = 0; i < 40; i += 1) await queue.next();
    queue.add('low', low);
    expect((await taken()).indexOf('low')).toBe(32);
  });

  test('has the more urgent priority of two adds while a worker has it', async () => {
    queue.add('a', low);
    await queue.next();
    queue.add('a');
    queue.add('a', low);
    queue.add('b');
    queue.done('a');
    queue.add('low', low);
    expect(await taken()).toEqual(['b', 'a', 'low']);
  });

  test('keeps its priority in a retry', async () => {
    queue.add('a', low);
    await queue.next();
    queue.addRateLimited('a');
    queue.done('a');
    jest.advanceTimersByTime(5);
    queue.add('b');
    expect(await taken()).toEqual(['b', 'a']);
  });

  test.each([
    ['earlier', 5],
    ['later', 50],
  ])('becomes urgent by an urgent add for an %s time', async (_, urgentMs) => {
    queue.addAfter('a', 20, low);
    queue.addAfter('a', urgentMs);
    queue.addAfter('a', 60, low);
    jest.advanceTimersByTime(60);
    queue.add('b');
    expect(await taken()).toEqual(['a', 'b']);
  });
});

describe('namespaces take turns', () => {
  test('so that many keys of one do not delay the only key of another', async () => {
    for (let i = 0; i < 10_000; i += 1) queue.add(`busy/${i}`);
    queue.add('quiet/a');
    queue.add('quiet/b');
    queue.add('cluster-scoped');
    const first = [];
    for (let i = 0; i < 6; i += 1) first.push(await queue.next());
    expect(first).toEqual(['busy/0', 'quiet/a', 'cluster-scoped', 'busy/1', 'quiet/b', 'busy/2']);
    expect(queue.depth).toBe(9997);
  });

  test('within a priority', async () => {
    const low = { priority: 'low' } as const;
    for (const key of ['x/1', 'x/2', 'y/1']) queue.add(key, low);
    for (const key of ['x/3', 'x/4', 'z/1']) queue.add(key);
    expect(await taken()).toEqual(['x/3', 'z/1', 'x/4', 'x/1', 'y/1', 'x/2']);
  });
});

describe('a key with a delay', () => {
  test('waits for a worker after its delay', () => {
    queue.addAfter('a', 100);
    jest.advanceTimersByTime(99);
    expect(queue.depth).toBe(0);
    jest.advanceTimersByTime(1);
    expect(queue.depth).toBe(1);
  });

  test.each([
    ['the second', 100, 50, 50],
    ['the first', 50, 100, 50],
  ])('is added at the earlier of two times: %s', (_, firstMs, secondMs, expectedMs) => {
    queue.addAfter('a', firstMs);
    queue.addAfter('a', secondMs);
    expect(pause()).toBe(expectedMs);
  });

  test('is added once for two times', async () => {
    queue.addAfter('a', 100);
    queue.addAfter('a', 50);
    expect(pause()).toBe(50);
    expect(await taken()).toEqual(['a']);
    queue.done('a');
    expect(pause(200)).toBeUndefined();
  });

  test('is added at the earlier time, not after the shorter delay', () => {
    queue.addAfter('a', 100);
    jest.advanceTimersByTime(80);
    queue.addAfter('a', 50);
    expect(pause()).toBe(20);
  });

  test('may have a delay of 0', () => {
    queue.addAfter('a', 0);
    expect(pause()).toBeLessThanOrEqual(1);
  });

  test('that a worker has is added when the worker is done', async () => {
    queue.add('a');
    await queue.next();
    queue.addAfter('a', 10);
    jest.advanceTimersByTime(10);
    expect(queue.depth).toBe(0);
    queue.done('a');
    expect(queue.depth).toBe(1);
  });

  test.each([30, 365])('may have a delay of %d days, longer than a timer of Node', (days) => {
    const dayMs = 86_400_000;
    queue.addAfter('a', days * dayMs);
    jest.advanceTimersByTime(days * dayMs - 1);
    expect(queue.depth).toBe(0);
    jest.advanceTimersByTime(1);
    expect(queue.depth).toBe(1);
  });

  test('of days is added earlier if an earlier time is requested', () => {
    queue.addAfter('a', 30 * 86_400_000);
    jest.advanceTimersByTime(26 * 86_400_000);
    queue.addAfter('a', 10);
    expect(pause()).toBe(10);
  });
});

describe('a failed key', () => {
  /** The pauses after each of so many failures. */
  const pauses = async (count: number): Promise<(number | undefined)[]> => {
    const found: (number | undefined)[] = [];
    for (let failure = 0; failure < count; failure += 1) {
      queue.addRateLimited('a');
      found.push(pause());
      await taken();
      queue.done('a');
    }
    return found;
  };

  test('is retried after 5 ms, then after twice as long each time', async () => {
    expect(await pauses(6)).toEqual([5, 10, 20, 40, 80, 160]);
  });

  test('is retried after a minute at most by default', async () => {
    expect((await pauses(17)).slice(-4)).toEqual([40_960, 60_000, 60_000, 60_000]);
  });

  test('is retried after maxBackoffMs, also after 1,100 failures', async () => {
    queue = new WorkQueue({ initialBackoffMs: 1, maxBackoffMs: 2 });
    expect((await pauses(1100)).at(-1)).toBe(2);
  });

  test('is retried with the backoff of the options', async () => {
    queue = new WorkQueue({ initialBackoffMs: 100, maxBackoffMs: 300 });
    expect(await pauses(4)).toEqual([100, 200, 300, 300]);
  });

  test('is retried with up to 10 % jitter', () => {
    jest.spyOn(Math, 'random').mockReturnValue(0.99);
    queue = new WorkQueue({ initialBackoffMs: 1000 });
    queue.addRateLimited('a');
    expect(pause()).toBe(1099);
  });

  test('that was forgotten starts from the initial backoff', async () => {
    await pauses(4);
    queue.forget('a');
    expect(await pauses(2)).toEqual([5, 10]);
  });

  test('is not delayed by the retries of another namespace', () => {
    queue = new WorkQueue({ retriesPerSecond: 10, retryBurst: 2 });
    for (let i = 0; i < 100; i += 1) queue.addRateLimited(`many/failed-${i}`);
    queue.addRateLimited('few/failed');
    expect(setTimeoutSpy.mock.lastCall?.[1]).toBe(5);
    // Another key of its own namespace still has failures.
    queue.forget('many/failed-0');
    queue.addRateLimited('many/failed-100');
    expect(setTimeoutSpy.mock.lastCall?.[1]).toBe(9900);
  });

  test('is limited by the rate for all retries of its namespace after a burst', () => {
    queue = new WorkQueue({ retriesPerSecond: 10, retryBurst: 2 });
    const comeMs = ['a', 'b', 'c', 'd'].map((key) => {
      const before = setTimeoutSpy.mock.calls.length;
      queue.addRateLimited(key);
      return setTimeoutSpy.mock.calls[before]?.[1];
    });
    expect(comeMs).toEqual([5, 5, 100, 200]);
    jest.advanceTimersByTime(1000);
    queue.addRateLimited('e');
    expect(setTimeoutSpy.mock.lastCall?.[1]).toBe(5);
  });

  test('is retried after maxBackoffMs at most, whatever the rate', () => {
    queue = new WorkQueue({ retriesPerSecond: 1, retryBurst: 1, maxBackoffMs: 3000 });
    for (let i = 0; i < 100; i += 1) queue.addRateLimited(`failed ${i}`);
    expect(setTimeoutSpy.mock.lastCall?.[1]).toBe(3000);
    jest.advanceTimersByTime(4000);
    expect(queue.depth).toBe(100);
    queue.addRateLimited('after the storm');
    expect(setTimeoutSpy.mock.lastCall?.[1]).toBe(5);
  });

  describe('after a mass failure', () => {
    const keys = Array.from({ length: 10 }, (_, index) => `a/failed-${index}`);
    const waiting = () => keys.filter((key) => queue.stateOf(key).waitingSinceMs !== undefined);
    const failAll = () => {
      queue = new WorkQueue({ initialBackoffMs: 20_000 });
      for (const key of [...keys, 'b/failed']) queue.addRateLimited(key);
    };

    test('a success makes the two oldest failures of its namespace due, and each further success two more', () => {
      failAll();
      jest.advanceTimersByTime(5000);
      queue.forget('a/failed-7');
      expect(waiting()).toEqual(['a/failed-0', 'a/failed-1']);
      queue.forget('a/failed-1');
      expect(waiting()).toEqual(['a/failed-0', 'a/failed-1', 'a/failed-2', 'a/failed-3']);
      // The next one in order succeeds for another reason.
      queue.forget('a/failed-4');
      expect(waiting().slice(4)).toEqual(['a/failed-5', 'a/failed-6']);
      expect(queue.stateOf('b/failed').waitingSinceMs).toBeUndefined();
    });

    test('the retries come as no wave: at most 10 and a thirtieth of the keys are tried in a second', async () => {
      let random = 0;
      jest.spyOn(Math, 'random').mockImplementation(() => {
        // Steps of the golden ratio spread evenly.
        random = (random + 0.618) % 1;
        return random;
      });
      const count = 900;
      for (let i = 0; i < count; i += 1) queue.addRateLimited(`a/failed-${i}`);
      const triesIn = async () => {
        jest.advanceTimersByTime(1000);
        const tried = await taken();
        for (const key of tried) {
          queue.addRateLimited(key ?? '');
          queue.done(key ?? '');
        }
        return tried.length;
      };
      // The burst of 100 ends within the first seconds.
      for (let second = 0; second < 10; second += 1) await triesIn();
      for (let second = 10; second < 300; second += 1) expect(await triesIn()).toBeLessThanOrEqual(10 + count / 30);
    });

    test('a success soon after the first failure changes nothing: it may be the end of a conflict', () => {
      failAll();
      jest.advanceTimersByTime(4999);
      queue.forget('a/failed-7');
      expect(waiting()).toEqual([]);
    });

    test('a requeue is not made due', () => {
      queue = new WorkQueue({ initialBackoffMs: 20_000 });
      queue.addRateLimited('a/failed-0');
      queue.addRateLimited('a/failed-1');
      queue.addAfter('a/failed-0', 10_000);
      jest.advanceTimersByTime(5000);
      queue.forget('a/failed-1');
      expect(waiting()).toEqual([]);
    });
  });

  test('has no rate limit with Infinity', () => {
    queue = new WorkQueue({ retriesPerSecond: Number.POSITIVE_INFINITY });
    for (let i = 0; i < 1000; i += 1) queue.addRateLimited(`failed ${i}`);
    expect(setTimeoutSpy.mock.lastCall?.[1]).toBe(5);
  });

  test.each([
    [{ retriesPerSecond: 0 }, 'retriesPerSecond must be above 0, is 0'],
    [{ retryBurst: 0 }, 'retryBurst must be at least 1, is 0'],
  ])('cannot have a rate that allows no retry: %j', (options, message) => {
    expect(() => new WorkQueue(options)).toThrow(new RangeError(message));
  });

  test('does not delay other keys', async () => {
    await pauses(6);
    queue.addRateLimited('b');
    expect(pause()).toBe(5);
    expect(await taken()).toEqual(['b']);
  });
});

describe('a closed queue', () => {
  test('wakes its workers with undefined', async () => {
    const workers = [queue.next(), queue.next()];
    queue.close();
    expect(await Promise.all(workers)).toEqual([undefined, undefined]);
    expect(await queue.next()).toBeUndefined();
  });

  test('drops waiting, delayed and failed keys', async () => {
    queue.add('with a worker');
    await queue.next();
    queue.add('with a worker');
    queue.add('waiting');
    queue.addAfter('later', 10);
    queue.addRateLimited('failed');
    queue.close();
    queue.done('with a worker');
    jest.advanceTimersByTime(100_000);
    expect(queue.depth).toBe(0);
    expect(jest.getTimerCount()).toBe(0);
    expect(await queue.next()).toBeUndefined();
  });

  test('ignores added keys', () => {
    queue.close();
    queue.add('a');
    queue.addAfter('b', 10);
    queue.addRateLimited('c');
    jest.advanceTimersByTime(100_000);
    expect(queue.depth).toBe(0);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('may be closed again', () => {
    queue.close();
    expect(() => queue.close()).not.toThrow();
  });
});

describe('the observer', () => {
  let told: string[];
  const observer: QueueObserver = {
    added: () => told.push('added'),
    retried: () => told.push('retried'),
    depth: (items, priority) => told.push(`depth ${items} of ${priority}`),
    waited: (seconds) => told.push(`waited ${seconds}`),
    started: (key) => told.push(`started ${key}`),
    finished: (key) => told.push(`finished ${key}`),
  };
  beforeEach(() => {
    told = [];
    queue = new WorkQueue({ observer });
  });

  test('observes adds, the depth, how long a key waited, and when a worker has it', async () => {
    queue.add('a');
    queue.add('a');
    jest.advanceTimersByTime(1500);
    await queue.next();
    expect(told.splice(0)).toEqual(['added', 'depth 1 of 0', 'depth 0 of 0', 'waited 1.5', 'started a']);
    queue.add('a');
    queue.done('a');
    expect(told.splice(0)).toEqual(['finished a', 'added', 'depth 1 of 0']);
  });

  test('observes how long a key waited for an idle worker', async () => {
    const idle = queue.next();
    queue.add('a');
    jest.advanceTimersByTime(20);
    await idle;
    expect(told).toEqual(['added', 'depth 1 of 0', 'depth 0 of 0', 'waited 0.02', 'started a']);
  });

  test('observes retries and other delays, as client-go counts them', () => {
    queue.addRateLimited('a');
    queue.addAfter('b', 10);
    expect(told).toEqual(['retried', 'retried']);
  });

  test('observes the depth of each priority', () => {
    queue.add('a', { priority: 'low' });
    queue.add('a');
    expect(told).toEqual(['added', 'depth 1 of -100', 'depth 0 of -100', 'depth 1 of 0']);
  });

  test('observes that a closed queue is empty', () => {
    queue.add('a');
    queue.add('b', { priority: 'low' });
    told = [];
    queue.close();
    expect(told).toEqual(['depth 0 of 0', 'depth 0 of -100']);
  });

  test('is optional, and so is each of its functions', async () => {
    queue = new WorkQueue();
    queue.add('a');
    queue.done(String(await queue.next()));
    expect(queue.depth).toBe(0);
  });
});

describe('a key knows its earliest event', () => {
  const eventAtMs = (key = 'a'): number | undefined => queue.processing(key)?.eventAtMs;
  const nowMs = (): number => performance.now();

  test('of those that came while it waited', async () => {
    queue.add('a');
    jest.advanceTimersByTime(10);
    const firstMs = nowMs();
    queue.add('a', { isEvent: true });
    jest.advanceTimersByTime(10);
    queue.add('a', { isEvent: true });
    await taken();
    expect(eventAtMs()).toBe(firstMs);
  });

  test('of those that came while a worker had it', async () => {
    queue.add('a', { isEvent: true });
    await taken();
    jest.advanceTimersByTime(10);
    const firstMs = nowMs();
    queue.add('a', { isEvent: true });
    jest.advanceTimersByTime(10);
    queue.add('a', { isEvent: true });
    queue.done('a');
    await taken();
    expect(eventAtMs()).toBe(firstMs);
    queue.done('a');
    queue.add('a');
    await taken();
    expect(eventAtMs()).toBeUndefined();
  });

  test('of those that are given', async () => {
    const earlierMs = nowMs();
    jest.advanceTimersByTime(10);
    queue.add('a', { isEvent: true });
    queue.add('a', { eventAtMs: earlierMs });
    queue.add('b', { eventAtMs: earlierMs });
    await taken();
    expect([eventAtMs('a'), eventAtMs('b')]).toEqual([earlierMs, earlierMs]);
  });
});

test('the state of a key tells what its timer is for, also after a success', () => {
  queue.add('a');
  void queue.next();
  queue.addRateLimited('a');
  expect(queue.stateOf('a')).toMatchObject({ dueCause: { type: 'retry' }, failures: 1 });
  queue.forget('a');
  queue.addAfter('a', 60_000);
  expect(queue.stateOf('a')).toMatchObject({ dueCause: { type: 'retry' }, failures: 0 });
  queue.addAfter('b', 60_000);
  expect(queue.stateOf('b').dueCause).toEqual({ type: 'requeue' });
  expect(queue.stateOf('c').dueCause).toBeUndefined();
});

test('nothing of a key stays after it has succeeded, and everything while its retry is due', async () => {
  using deletions = jest.spyOn(Map.prototype, 'delete');
  const isDropped = (): boolean => deletions.mock.calls.some(([key]) => key === 'a');
  queue.add('a');
  await taken();
  queue.addRateLimited('a');
  queue.done('a');
  expect([queue.failures('a'), isDropped()]).toEqual([1, false]);
  expect(pause()).toBeDefined();
  await taken();
  queue.forget('a');
  expect(isDropped()).toBe(false);
  queue.done('a');
  expect(isDropped()).toBe(true);
});
