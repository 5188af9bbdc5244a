import { getEventListeners } from 'node:events';
import { expect, test } from '@jest/globals';
import { type Cancellable, Cancellations } from '../../../../src/runtime/client/cancellations.ts';

const cancellations = new Cancellations();
const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

class Request implements Cancellable {
  cancelled: Error | undefined;

  cancel(reason: Error): void {
    this.cancelled = reason;
  }
}

test('a signal has one listener for all that is under way, and none when nothing is', () => {
  const { signal } = new AbortController();
  const [a, b] = [new Request(), new Request()];
  for (let time = 0; time < 2; time += 1) {
    cancellations.add(signal, a);
    cancellations.add(signal, b);
    expect(listeners(signal)).toBe(1);
    cancellations.delete(signal, a);
    cancellations.delete(signal, a);
    expect(listeners(signal)).toBe(1);
    cancellations.delete(signal, b);
    expect(listeners(signal)).toBe(0);
  }
});

test('what is under way when a signal is aborted is cancelled, what has ended is not, and what comes later is at once', () => {
  const controller = new AbortController();
  const [ended, underWay, late] = [new Request(), new Request(), new Request()];
  cancellations.add(controller.signal, ended);
  cancellations.delete(controller.signal, ended);
  cancellations.add(controller.signal, underWay);
  const reason = new Error('enough');
  controller.abort(reason);
  cancellations.add(controller.signal, late);
  expect([ended, underWay, late].map(({ cancelled }) => cancelled)).toEqual([undefined, reason, reason]);
});
