import { getEventListeners } from 'node:events';
import { describe, expect, jest, test } from '@jest/globals';
import { KeyedMutex, LinkedSignal, untilAborted } from '../../../src/external/concurrency.ts';

describe('a linked signal', () => {
  test('is aborted with the first of the others, and with its reason', () => {
    const [one, other] = [new AbortController(), new AbortController()];
    using linked = new LinkedSignal(one.signal, undefined, other.signal);
    expect(linked.signal.aborted).toBe(false);
    other.abort(new Error('other'));
    one.abort(new Error('one'));
    expect(linked.signal.reason).toEqual(new Error('other'));
  });

  test('is aborted from the start if one of them is', () => {
    using linked = new LinkedSignal(new AbortController().signal, AbortSignal.abort('before'));
    expect(linked.signal.reason).toBe('before');
  });

  test('removes its listeners', () => {
    const { signal } = new AbortController();
    const linked = new LinkedSignal(signal);
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    linked[Symbol.dispose]();
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });
});

describe('waiting until a signal is aborted', () => {
  test('rejects with the reason and removes the listener', async () => {
    const stop = new AbortController();
    expect(await untilAborted(Promise.resolve('done'), stop.signal)).toBe('done');
    const waiting = untilAborted(new Promise(() => {}), stop.signal);
    stop.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await expect(untilAborted(new Promise(() => {}), stop.signal)).rejects.toThrow('enough');
    expect(getEventListeners(stop.signal, 'abort')).toHaveLength(0);
  });
});

const never = new AbortController().signal;

describe('a keyed mutex', () => {
  test('runs operations of one key in order, one at a time; other keys do not wait', async () => {
    const mutex = new KeyedMutex();
    const happened: string[] = [];
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    const work = (name: string, until?: Promise<void>) => async () => {
      happened.push(`${name} begins`);
      await until;
      happened.push(`${name} ends`);
      return name;
    };
    const first = mutex.run('a', never, work('first', gates[0].promise));
    const second = mutex.run('a', never, work('second', gates[1].promise));
    const third = mutex.run('a', never, work('third'));
    expect(await mutex.run('b', never, work('other'))).toBe('other');
    expect(happened).toEqual(['first begins', 'other begins', 'other ends']);
    gates[1].resolve();
    gates[0].resolve();
    expect(await Promise.all([first, second, third])).toEqual(['first', 'second', 'third']);
    expect(happened.slice(3)).toEqual(['first ends', 'second begins', 'second ends', 'third begins', 'third ends']);
  });

  test('continues after an operation that fails', async () => {
    const mutex = new KeyedMutex();
    const failed = mutex.run('a', never, () => Promise.reject(new Error('no')));
    const next = mutex.run('a', never, async () => 'next');
    await expect(failed).rejects.toThrow('no');
    expect(await next).toBe('next');
  });

  test('keeps the order when a waiting operation is aborted', async () => {
    const mutex = new KeyedMutex();
    const gate = Promise.withResolvers<void>();
    const leaving = new AbortController();
    let isFirstDone = false;
    const first = mutex.run('a', never, async () => {
      await gate.promise;
      isFirstDone = true;
    });
    const second = mutex.run('a', leaving.signal, async () => 'second');
    const third = mutex.run('a', never, async () => isFirstDone);
    leaving.abort(new Error('left'));
    await expect(second).rejects.toThrow('left');
    gate.resolve();
    await first;
    expect(await third).toBe(true);
  });

  test('keeps no entry for unused keys', async () => {
    const mutex = new KeyedMutex();
    using deletions = jest.spyOn(Map.prototype, 'delete');
    await Promise.all([mutex.run('a', never, async () => 1), mutex.run('b', never, async () => 2)]);
    await new Promise(setImmediate);
    expect(deletions.mock.calls).toEqual([['a'], ['b']]);
  });

  test('removes the listeners of operations that have waited', async () => {
    const mutex = new KeyedMutex();
    const { signal } = new AbortController();
    const gate = Promise.withResolvers<void>();
    const turns = [gate.promise, undefined, undefined].map((until) => mutex.run('a', signal, async () => until));
    await Promise.resolve();
    gate.resolve();
    await Promise.all(turns);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });
});
