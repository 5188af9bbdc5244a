import { describe, expect, test } from '@jest/globals';
import { OneAtATime } from '../../../../src/controllers/pet/one-at-a-time.ts';

const never = new AbortController().signal;

describe('one at a time', () => {
  test('those of one key come one after the other, in their order; others do not wait', async () => {
    const turns = new OneAtATime();
    const happened: string[] = [];
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
    const work = (name: string, until?: Promise<void>) => async () => {
      happened.push(`${name} begins`);
      await until;
      happened.push(`${name} ends`);
      return name;
    };
    const first = turns.run('a', never, work('first', gates[0].promise));
    const second = turns.run('a', never, work('second', gates[1].promise));
    const third = turns.run('a', never, work('third'));
    expect(await turns.run('b', never, work('other'))).toBe('other');
    expect(happened).toEqual(['first begins', 'other begins', 'other ends']);
    gates[1].resolve();
    gates[0].resolve();
    expect(await Promise.all([first, second, third])).toEqual(['first', 'second', 'third']);
    expect(happened.slice(3)).toEqual(['first ends', 'second begins', 'second ends', 'third begins', 'third ends']);
  });

  test('one that fails does not hold up the next', async () => {
    const turns = new OneAtATime();
    const failed = turns.run('a', never, () => Promise.reject(new Error('no')));
    const next = turns.run('a', never, async () => 'next');
    await expect(failed).rejects.toThrow('no');
    expect(await next).toBe('next');
  });

  test('one that gives up its turn leaves the order as it is', async () => {
    const turns = new OneAtATime();
    const gate = Promise.withResolvers<void>();
    const leaving = new AbortController();
    let isFirstDone = false;
    const first = turns.run('a', never, async () => {
      await gate.promise;
      isFirstDone = true;
    });
    const second = turns.run('a', leaving.signal, async () => 'second');
    const third = turns.run('a', never, async () => isFirstDone);
    leaving.abort(new Error('left'));
    await expect(second).rejects.toThrow('left');
    gate.resolve();
    await first;
    expect(await third).toBe(true);
  });

  test('keeps nothing of keys that nobody works on', async () => {
    const turns = new OneAtATime();
    await Promise.all([turns.run('a', never, async () => 1), turns.run('b', never, async () => 2)]);
    await Promise.resolve();
    await new Promise(setImmediate);
    expect(turns.size).toBe(0);
  });
});
