import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { StatusDebouncer } from '../../../../src/runtime/controller/status-debounce.ts';
import { WorkQueue } from '../../../../src/runtime/queue/index.ts';

const maxMs = 800;

let queue: WorkQueue;
let debouncer: StatusDebouncer;
/** The keys that a worker got, in order. */
let taken: string[];

beforeEach(() => {
  jest.useFakeTimers();
  queue = new WorkQueue();
  debouncer = new StatusDebouncer(maxMs, (...added) => queue.add(...added));
  taken = [];
});
afterEach(() => {
  queue.close();
  jest.useRealTimers();
});

const add = (key: string): void => {
  debouncer.added(key);
  queue.add(key);
};

/** Gives every waiting key to a worker. */
async function work(reconcile: (key: string) => void): Promise<void> {
  for (let left = queue.depth; left > 0; left -= 1) await workOnce(reconcile);
}

async function workOnce(reconcile: (key: string) => void): Promise<void> {
  const key = String(await queue.next());
  debouncer.dequeued(key);
  taken.push(key);
  reconcile(key);
  queue.done(key);
}

/** A reconcile that asks whether its write may wait. @returns whether it may */
function asks(key: string, isFirst: boolean): boolean {
  const debounce = debouncer.start(key);
  const mayWait = debounce.mayWait(isFirst);
  debounce.end({ isRetried: false });
  return mayWait;
}

const ends = (key: string, isRetried = false): void => debouncer.start(key).end({ isRetried });

describe('a later status of a generation', () => {
  test('waits for the given time, and no longer', async () => {
    queue.add('a');
    await work((key) => expect(asks(key, false)).toBe(true));
    jest.advanceTimersByTime(maxMs - 1);
    expect(queue.depth).toBe(0);
    jest.advanceTimersByTime(1);
    await work((key) => expect(asks(key, false)).toBe(false));
    expect(taken).toEqual(['a', 'a']);
  });

  test('does not wait longer because of events', async () => {
    queue.add('a');
    await work((key) => expect(asks(key, false)).toBe(true));
    jest.advanceTimersByTime(maxMs - 100);
    queue.add('a');
    await work((key) => expect(asks(key, false)).toBe(true));
    jest.advanceTimersByTime(100);
    await work((key) => expect(asks(key, false)).toBe(false));
    expect(taken).toHaveLength(3);
  });

  test('does not wait longer because of a failed reconcile', async () => {
    queue.add('a');
    await work((key) => expect(asks(key, false)).toBe(true));
    jest.advanceTimersByTime(maxMs - 100);
    queue.add('a');
    await work((key) => ends(key, true));
    jest.advanceTimersByTime(100);
    await work((key) => expect(asks(key, false)).toBe(false));
  });

  test('is enqueued before all others when its time is up', async () => {
    queue.add('a');
    await work((key) => asks(key, false));
    for (let i = 0; i < 100; i += 1) queue.add(`other ${i}`);
    jest.advanceTimersByTime(maxMs);
    taken = [];
    await workOnce((key) => asks(key, false));
    expect(taken).toEqual(['a']);
  });

  test('waits anew after a write', async () => {
    queue.add('a');
    await work((key) => asks(key, false));
    jest.advanceTimersByTime(maxMs);
    await work((key) => ends(key));
    queue.add('a');
    await work((key) => expect(asks(key, false)).toBe(true));
  });

  test('causes no reconcile after it was written for another reason', async () => {
    queue.add('a');
    await work((key) => asks(key, false));
    queue.add('a');
    await work((key) => ends(key));
    jest.advanceTimersByTime(maxMs);
    expect(queue.depth).toBe(0);
  });

  test('is due until it is written, not only when its time is up', async () => {
    queue.add('a');
    await work((key) => asks(key, false));
    expect(debouncer.dueAtMs('a')).toBe(performance.now() + maxMs);
    jest.advanceTimersByTime(maxMs);
    await work((key) => ends(key, true));
    expect(debouncer.dueAtMs('a')).toBeUndefined();
    queue.add('a');
    await work((key) => ends(key));
  });

  test('of an object that was deleted without an event ends with a reconcile', async () => {
    queue.add('a');
    await work((key) => asks(key, false));
    jest.advanceTimersByTime(maxMs);
    await work((key) => ends(key));
    expect(jest.getTimerCount()).toBe(0);
  });
});

describe('the first status of a generation', () => {
  test('does not wait if no other key waits for its first reconcile', async () => {
    queue.add('known');
    add('a');
    await work((key) => key === 'a' && expect(asks(key, true)).toBe(false));
    expect(taken).toEqual(['known', 'a']);
  });

  test('waits until the others have been reconciled, with low urgency', async () => {
    add('a');
    add('b');
    add('c');
    const waited = new Map<string, boolean>();
    await work((key) => waited.set(key, asks(key, true)));
    expect(taken).toEqual(['a', 'b', 'c']);
    expect([...waited.values()]).toEqual([true, true, false]);
    await work((key) => waited.set(key, asks(key, true)));
    expect(taken).toEqual(['a', 'b', 'c', 'a', 'b']);
    expect([...waited.values()]).toEqual([false, false, false]);
  });

  test('is not asked for again before the others have a worker, or something else enqueues it', async () => {
    add('a');
    add('b');
    await workOnce((key) => expect(asks(key, true)).toBe(true));
    await workOnce((key) => expect(key).toBe('b'));
    expect(queue.depth).toBe(1);
    await workOnce((key) => expect(asks(key, true)).toBe(false));
    expect(taken).toEqual(['a', 'b', 'a']);
    jest.advanceTimersByTime(maxMs);
    expect(queue.depth).toBe(0);
  });

  test('does not wait for the timer if the last new object gets a worker meanwhile', async () => {
    add('a');
    add('b');
    await workOnce((key) => {
      const debounce = debouncer.start(key);
      expect(debounce.mayWait(true)).toBe(true);
      debouncer.dequeued('b');
      debounce.end({ isRetried: false });
    });
    await workOnce(() => {});
    await workOnce((key) => expect(asks(key, true)).toBe(false));
    expect(taken).toEqual(['a', 'b', 'a']);
  });

  test('waits for the given time at most while others wait', async () => {
    add('a');
    add('b');
    await workOnce((key) => expect(asks(key, true)).toBe(true));
    jest.advanceTimersByTime(maxMs);
    await workOnce((key) => expect(asks(key, true)).toBe(false));
    expect(taken).toEqual(['a', 'a']);
  });
});

test('nothing waits after the close, also if a running reconcile has asked before', async () => {
  add('a');
  add('b');
  await workOnce((key) => asks(key, true));
  const running = debouncer.start('c');
  expect(running.mayWait(false)).toBe(true);
  queue.close();
  debouncer.close();
  debouncer.added('d');
  running.end({ isRetried: false });
  expect(asks('d', true)).toBe(false);
  expect(asks('a', false)).toBe(false);
  expect(jest.getTimerCount()).toBe(0);
});
