import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { Fence } from '../../../../src/runtime/leader-election/fence.ts';
import { LeadershipLostError, NotLeadingError } from '../../../../src/runtime/leader-election/index.ts';
import { now } from '../../../../src/runtime/leader-election/instant.ts';

const termMs = 10_000;
let fence: Fence;

beforeEach(() => {
  jest.useFakeTimers();
  fence = new Fence(termMs);
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
  test('is closed before the first renewal, and says so', () => {
    expect(() => fence.pass()).toThrow(NotLeadingError);
    expect(() => fence.pass()).toThrow('this process does not lead: it holds no lease yet');
    expect(fence.signal.aborted).toBe(false);
    expect(fence.leftMs).toBe(0);
  });

  test('is open until its term after the sending of the last renewal', () => {
    fence.renewed(now());
    jest.advanceTimersByTime(termMs - 1);
    expect(passes()).toBe(true);
    expect(fence.leftMs).toBe(1);
    expect(fence.signal.aborted).toBe(false);
    jest.advanceTimersByTime(1);
    expect(passes()).toBe(false);
    expect(fence.signal.reason).toBeInstanceOf(LeadershipLostError);
    expect(String(fence.signal.reason)).toContain('not renewed within 10 s');
    expect(fence.leftMs).toBe(0);
  });

  test('counts from when a renewal was sent, not from its answer', () => {
    const sentAt = now();
    jest.advanceTimersByTime(4000);
    fence.renewed(sentAt);
    expect(fence.leftMs).toBe(6000);
    jest.advanceTimersByTime(6000);
    expect(fence.signal.aborted).toBe(true);
  });

  test('is kept open by renewals', () => {
    fence.renewed(now());
    for (let renewal = 0; renewal < 10; renewal++) {
      jest.advanceTimersByTime(termMs - 1);
      fence.renewed(now());
    }
    expect(passes()).toBe(true);
    expect(jest.getTimerCount()).toBe(1);
  });

  test('stays closed, whatever is renewed', () => {
    fence.renewed(now());
    jest.advanceTimersByTime(termMs);
    fence.renewed(now());
    expect(passes()).toBe(false);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('refuses a renewal whose answer came too late, before any timer has told', () => {
    fence.renewed(now());
    const sentAt = { monotonicMs: now().monotonicMs + 9000, wallMs: now().wallMs + 9000 };
    // As after a stop of the process: the clocks have gone on, the timers have not.
    jest.spyOn(performance, 'now').mockReturnValue(now().monotonicMs + 12_000);
    fence.renewed(sentAt);
    expect(passes()).toBe(false);
    jest.restoreAllMocks();
  });

  test.each([
    ['the monotonic clock, though the wall clock was set back', 'monotonic'],
    ['the wall clock, though the monotonic clock stood still', 'wall'],
  ] as const)('believes %s', (_, clock) => {
    fence.renewed(now());
    const { monotonicMs, wallMs } = now();
    jest.spyOn(performance, 'now').mockReturnValue(clock === 'monotonic' ? monotonicMs + termMs : monotonicMs);
    jest.spyOn(Date, 'now').mockReturnValue(clock === 'wall' ? wallMs + termMs : wallMs - 3_600_000);
    expect(passes()).toBe(false);
    expect(fence.signal.aborted).toBe(true);
    jest.restoreAllMocks();
  });

  test('closed by hand says why, and leaves no timer', () => {
    fence.renewed(now());
    const reason = new NotLeadingError('given back');
    fence.close(reason);
    expect(() => fence.pass()).toThrow(reason);
    expect(fence.signal.reason).toBe(reason);
    expect(jest.getTimerCount()).toBe(0);
  });
});
