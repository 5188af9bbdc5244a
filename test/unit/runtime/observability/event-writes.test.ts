import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { test } from '@jest/globals';
import { EventWrites } from '../../../../src/runtime/observability/event-writes.ts';
import { eventually } from '../../../../testkit/eventually.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

test('writes that have ended are let go, also while others wait all the time', async () => {
  const writes = new EventWrites();
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
    await writes.settled();
  }
});
