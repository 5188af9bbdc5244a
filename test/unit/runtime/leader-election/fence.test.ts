import { LeadershipLostError, NotLeadingError } from '@echoperator/runtime/leader-election';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { Fence } from '../../../../packages/runtime/src/leader-election/fence.ts';
import { currentInstant } from '../../../../packages/runtime/src/leader-election/instant.ts';

const renewDeadlineMs = 10_000;
let fence: Fence;

beforeEach(() => {
  jest.useFakeTimers();
  fence = new Fence(renewDeadlineMs);
});
afterEach(() => {
  jest.useRealTimers();
});

const passes = (): boolean => {
  try {
    fence.pass();
    return true;
  } catch {
    return false;
  }
};

describe('a fence', () => {
  test('is closed before the first renewal and says why', () => {
    expect(() => fence.pass()).toThrow(NotLeadingError);
    expect(() => fence.pass()).toThrow('this process does not lead: it holds no lease yet');
    expect(fence.signal.aborted).toBe(false);
    expect(fence.remainingMs).toBe(0);
  });

  test('is open until the renew deadline has passed since the last renewal was sent', () => {
    fence.extend(currentInstant());
    jest.advanceTimersByTime(renewDeadlineMs - 1);
    expect(passes()).toBe(true);
    expect(fence.remainingMs).toBe(1);
    expect(fence.signal.aborted).toBe(false);
    jest.advanceTimersByTime(1);
    expect(passes()).toBe(false);
    expect(fence.signal.reason).toBeInstanceOf(LeadershipLostError);
    expect(String(fence.signal.reason)).toContain('not renewed within 10 s');
    expect(fence.remainingMs).toBe(0);
  });

  test('counts from when a renewal was sent, not from its response', () => {
    const sentAt = currentInstant();
    jest.advanceTimersByTime(4000);
    fence.extend(sentAt);
    expect(fence.remainingMs).toBe(6000);
    jest.advanceTimersByTime(6000);
    expect(fence.signal.aborted).toBe(true);
  });

  test('is kept open by renewals', () => {
    fence.extend(currentInstant());
    for (let renewal = 0; renewal < 10; renewal++) {
      jest.advanceTimersByTime(renewDeadlineMs - 1);
      fence.extend(currentInstant());
    }
    expect(passes()).toBe(true);
    expect(jest.getTimerCount()).toBe(1);
  });

  test('stays closed after a late renewal', () => {
    fence.extend(currentInstant());
    jest.advanceTimersByTime(renewDeadlineMs);
    fence.extend(currentInstant());
    expect(passes()).toBe(false);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('ignores a renewal whose response came too late, even before a timer has fired', () => {
    fence.extend(currentInstant());
    const sentAt = { monotonicMs: currentInstant().monotonicMs + 9000, wallMs: currentInstant().wallMs + 9000 };
    // As after a stop of the process: the clocks have advanced, the timers have not.
    jest.spyOn(performance, 'now').mockReturnValue(currentInstant().monotonicMs + 12_000);
    fence.extend(sentAt);
    expect(passes()).toBe(false);
    jest.restoreAllMocks();
  });

  test.each([
    ['the monotonic clock, though the wall clock was set back', 'monotonic'],
    ['the wall clock, though the monotonic clock stood still', 'wall'],
  ] as const)('expires by %s', (_, clock) => {
    fence.extend(currentInstant());
    const { monotonicMs, wallMs } = currentInstant();
    jest.spyOn(performance, 'now').mockReturnValue(clock === 'monotonic' ? monotonicMs + renewDeadlineMs : monotonicMs);
    jest.spyOn(Date, 'now').mockReturnValue(clock === 'wall' ? wallMs + renewDeadlineMs : wallMs - 3_600_000);
    expect(passes()).toBe(false);
    expect(fence.signal.aborted).toBe(true);
    jest.restoreAllMocks();
  });

  test('that is closed explicitly throws the reason and leaves no timer', () => {
    fence.extend(currentInstant());
    const reason = new NotLeadingError('released');
    fence.close(reason);
    expect(() => fence.pass()).toThrow(reason);
    expect(fence.signal.reason).toBe(reason);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('closes within a second after a suspension, in which timers stood still, although no request asks to pass', () => {
    fence.extend(currentInstant());
    jest.setSystemTime(Date.now() + 20_000);
    expect(fence.signal.aborted).toBe(false);
    jest.advanceTimersByTime(1000);
    expect(fence.signal.aborted).toBe(true);
  });
});
