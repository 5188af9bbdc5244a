import { setImmediate as nextTurn } from 'node:timers/promises';
import { Informer, type TrackedRequest } from '@echoperator/runtime/cache';
import type { Client, WatchEvent, WatchOptions } from '@echoperator/runtime/client';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { stored, Widget } from '../../../../testkit/widgets.ts';

type Events = readonly WatchEvent<Widget>[];

let informer: Informer<Widget>;
let watches: number;
/** Delivers events over the open watch. */
let send: (events: Events) => void;
let stop: AbortController;
let running: Promise<void>;

beforeEach(async () => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
  watches = 0;
  const client = {
    list: async () => ({ items: [], metadata: { resourceVersion: '10' } }),
    watchBatches: async function* (_: unknown, { signal }: WatchOptions) {
      watches += 1;
      yield [];
      for (;;) {
        yield await new Promise<Events>((resolve, reject) => {
          send = resolve;
          signal.addEventListener('abort', () => reject(signal.reason), { once: true });
        });
      }
    },
  } as unknown as Client;
  informer = new Informer({ client, kind: Widget, log: new RecordingLog(), listing: 'paged' });
  await run();
});
afterEach(async () => {
  stop.abort();
  await running;
  jest.useRealTimers();
});

async function run(): Promise<void> {
  stop = new AbortController();
  running = informer.run(stop.signal);
  await allDone();
}

/** Promises need some turns, and no time. */
async function allDone(): Promise<void> {
  for (let turns = 0; turns < 10; turns += 1) await nextTurn();
}

async function pass(ms: number): Promise<void> {
  jest.advanceTimersByTime(ms);
  await allDone();
}

function responded(): TrackedRequest<Widget> {
  const request = informer.trackRequest({ namespace: 'default', name: 'a' }, () => undefined) as TrackedRequest<Widget>;
  request.end();
  return request;
}

test('a watch that does not deliver the object of a response is replaced', async () => {
  responded().show(stored('a', '20'));
  await pass(9999);
  expect(watches).toBe(1);
  await pass(1);
  expect(watches).toBe(2);
});

test('so is one that delivers late the creation of an object that is gone, and then not its deletion', async () => {
  responded().show(stored('a', '20'));
  responded().hide('uid-a');
  await pass(10_000);
  send([{ type: 'ADDED', object: stored('a', '20') }]);
  await allDone();
  expect(watches).toBe(1);
  await pass(10_000);
  expect(watches).toBe(2);
});

test('so is the watch of a second run, if the first one has left a response', async () => {
  responded().show(stored('a', '20'));
  stop.abort();
  await running;
  await run();
  expect(watches).toBe(2);
  await pass(10_000);
  expect(watches).toBe(3);
});
