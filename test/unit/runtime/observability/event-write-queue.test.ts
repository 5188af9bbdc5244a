import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { test } from '@jest/globals';
import { EventWriteQueue } from '../../../../packages/runtime/src/observability/event-write-queue.ts';
import { eventually } from '../../../../testkit/eventually.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

test('releases ended writes, even while the queue is never empty', async () => {
  const writes = new EventWriteQueue();
  const bodies: WeakRef<object>[] = [];
  let isGoing = true;
  const add = (): void => {
    const body = { text: 'x'.repeat(1000) };
    bodies.push(new WeakRef(body));
    writes.add(async () => {
      await setImmediate(body.text);
      // Each that ends adds another, so that the backlog never empties.
      if (isGoing) add();
    });
  };
  for (let count = 0; count < 100; count += 1) add();
  try {
    await eventually('many writes have ended', async () => bodies.length >= 1100);
    await eventually('the writes that have ended are let go', async () => {
      collectGarbage();
      return bodies.slice(0, 500).every((body) => body.deref() === undefined);
    });
  } finally {
    isGoing = false;
    await writes.waitUntilIdle();
  }
});
