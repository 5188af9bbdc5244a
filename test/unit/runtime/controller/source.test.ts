import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { ObjectKey } from '@echoperator/runtime';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { type KeySource, runSource } from '../../../../packages/runtime/src/controller/source.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

let stop: AbortController;
let log: RecordingLog;
let keys: string[];
let running: Promise<void>;
beforeEach(() => {
  stop = new AbortController();
  log = new RecordingLog();
  keys = [];
});
afterEach(async () => {
  stop.abort();
  await running;
});

const run = (source: KeySource, enqueue: (key: ObjectKey) => void = ({ name }) => keys.push(name)): void => {
  running = runSource(source, { enqueue, signal: stop.signal, log });
};

describe('a generator', () => {
  test('leaves nothing in memory for an enqueued key', async () => {
    const count = 100_000;
    const heap: number[] = [];
    const measure = (): void => {
      collectGarbage();
      heap.push(process.memoryUsage().heapUsed);
    };
    run(
      async function* () {
        measure();
        for (let index = 0; index < count; index += 1) yield { name: 'a' };
        measure();
        await new Promise(() => {});
      },
      () => {},
    );
    await eventually('all keys are enqueued', async () => heap.length === 2);
    const [before, after] = heap as [number, number];
    expect((after - before) / count).toBeLessThan(50);
  });

  test('is closed and called again if one of its keys cannot be enqueued', async () => {
    const ends: string[] = [];
    run(
      async function* () {
        try {
          yield { name: ends.length === 0 ? 'bad' : 'good' };
        } finally {
          ends.push('returned');
        }
      },
      ({ name }) => {
        if (name === 'bad') throw new Error('no such key');
        keys.push(name);
      },
    );
    await eventually('it is begun again', async () => keys.length === 1);
    expect(ends[0]).toBe('returned');
    expect(log.messages('warn')).toEqual(['a key source failed: trying again']);
  });

  test('is closed when the controller stops, even while it waits for its next key', async () => {
    let returns = 0;
    const never = new Promise<IteratorResult<ObjectKey>>(() => {});
    const iterator = {
      next: () => never,
      return: async () => {
        returns += 1;
        return { done: true, value: undefined } as const;
      },
    };
    run(() => ({ [Symbol.asyncIterator]: () => iterator }));
    stop.abort();
    await running;
    expect(returns).toBe(1);
  });
});

test('the signal of a failed call is aborted, that of the next call is not', async () => {
  const signals: AbortSignal[] = [];
  run(async (enqueue, signal) => {
    signals.push(signal);
    if (signals.length === 1) throw new Error('the stream broke');
    enqueue({ name: 'again' });
  });
  await eventually('it is tried again', async () => keys.length === 1);
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  // A source that has returned may go on until the controller stops.
  await running;
  stop.abort();
  expect(signals[1]?.aborted).toBe(true);
});

test('a source that fails after it has run for a minute is called again as soon as after its first failure', async () => {
  // Each call to the clock is a minute later.
  let nowMs = 0;
  const clock = jest.spyOn(performance, 'now').mockImplementation(() => {
    nowMs += 60_000;
    return nowMs;
  });
  let calls = 0;
  run(() => {
    calls += 1;
    if (calls < 6) throw new Error('broken');
  });
  await running;
  clock.mockRestore();
  const waits = log.lines.map(({ details }) => Number(details.waitMs));
  expect(waits).toHaveLength(5);
  // 0.8 s and half of it.
  expect(Math.max(...waits)).toBeLessThanOrEqual(1_200);
}, 20_000);
