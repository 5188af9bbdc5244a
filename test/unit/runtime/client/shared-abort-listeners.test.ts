import { getEventListeners } from 'node:events';
import { expect, test } from '@jest/globals';
import {
  type Cancellable,
  SharedAbortListeners,
} from '../../../../packages/runtime/src/client/shared-abort-listeners.ts';

const abortListeners = new SharedAbortListeners();
const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

class Request implements Cancellable {
  cancelled: Error | undefined;

  cancel(reason: Error): void {
    this.cancelled = reason;
  }
}

test('a signal has one listener while any work is in flight, and none otherwise', () => {
  const { signal } = new AbortController();
  const [a, b] = [new Request(), new Request()];
  for (let time = 0; time < 2; time += 1) {
    abortListeners.add(signal, a);
    abortListeners.add(signal, b);
    expect(listeners(signal)).toBe(1);
    abortListeners.delete(signal, a);
    abortListeners.delete(signal, a);
    expect(listeners(signal)).toBe(1);
    abortListeners.delete(signal, b);
    expect(listeners(signal)).toBe(0);
  }
});

test('an abort cancels work in flight, and later work at once, but not work that has ended', () => {
  const controller = new AbortController();
  const [ended, underWay, late] = [new Request(), new Request(), new Request()];
  abortListeners.add(controller.signal, ended);
  abortListeners.delete(controller.signal, ended);
  abortListeners.add(controller.signal, underWay);
  const reason = new Error('enough');
  controller.abort(reason);
  abortListeners.add(controller.signal, late);
  expect([ended, underWay, late].map(({ cancelled }) => cancelled)).toEqual([undefined, reason, reason]);
});
