import { getEventListeners } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import { Ending } from '../../../../src/controllers/pet/ending.ts';

describe('an ending', () => {
  test('comes with the first of others, for its reason', () => {
    const [one, other] = [new AbortController(), new AbortController()];
    using ending = new Ending(one.signal, undefined, other.signal);
    expect(ending.signal.aborted).toBe(false);
    other.abort(new Error('other'));
    one.abort(new Error('one'));
    expect(ending.signal.reason).toEqual(new Error('other'));
  });

  test('has come where one of them has', () => {
    using ending = new Ending(new AbortController().signal, AbortSignal.abort('before'));
    expect(ending.signal.reason).toBe('before');
  });

  test('leaves nothing behind', () => {
    const { signal } = new AbortController();
    const ending = new Ending(signal);
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    ending[Symbol.dispose]();
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });
});
