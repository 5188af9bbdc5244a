import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import type { WatchReplacement } from '../../../../packages/runtime/src/cache/reflector.ts';
import { Watchdog } from '../../../../packages/runtime/src/cache/watchdog.ts';

let nowMs: number;
let waitingSinceMs: number | undefined;
let replacements: WatchReplacement[];
/** The watches that it has asked to replace, and those that were. */
let calls: string[];
let watchdog: Watchdog;

beforeEach(() => {
  jest.useFakeTimers();
  nowMs = 0;
  jest.spyOn(performance, 'now').mockImplementation(() => nowMs);
  waitingSinceMs = 0;
  replacements = [];
  calls = [];
  watchdog = new Watchdog({
    timeoutMs: 10_000,
    waitingSinceMs: () => waitingSinceMs,
    replaceWatch: ({ relist, openForMs }) => {
      calls.push(`${relist ? 'list' : 'resume'} after ${openForMs}`);
      return replacements.shift() ?? 'replaced';
    },
    replaced: (isFirst) => calls.push(isFirst ? 'first' : 'further'),
  });
});
afterEach(() => {
  watchdog.stop();
  jest.useRealTimers();
  jest.restoreAllMocks();
});

function pass(ms: number): void {
  for (let left = ms; left > 0; left -= 1000) {
    nowMs += Math.min(left, 1000);
    jest.advanceTimersByTime(Math.min(left, 1000));
  }
}

test('replaces a watch that stays silent, first by one that resumes, then by ones that list', () => {
  watchdog.start();
  pass(9000);
  expect(calls).toEqual([]);
  pass(1000);
  expect(calls).toEqual(['resume after 5000', 'first']);
  pass(20_000);
  expect(calls.slice(2)).toEqual(['list after 5000', 'further', 'list after 5000', 'further']);
});

test('leaves a watch alone that delivers something, and one that nothing waits for', () => {
  watchdog.start();
  pass(6000);
  watchdog.delivered();
  pass(9000);
  expect(calls).toEqual([]);
  waitingSinceMs = undefined;
  pass(60_000);
  expect(calls).toEqual([]);
});

test('starts again when something waits again', () => {
  watchdog.start();
  waitingSinceMs = undefined;
  pass(20_000);
  waitingSinceMs = nowMs;
  watchdog.start();
  pass(9000);
  expect(calls).toEqual([]);
  pass(1000);
  expect(calls).toEqual(['resume after 5000', 'first']);
});

test('resumes again, not lists, after a watch has delivered something', () => {
  watchdog.start();
  pass(10_000);
  watchdog.delivered();
  pass(10_000);
  expect(calls).toEqual(['resume after 5000', 'first', 'resume after 5000', 'first']);
});

test('lets a young watch be, but lists if the next one is too young as well', () => {
  replacements = ['tooYoung', 'tooYoung', 'replaced'];
  watchdog.start();
  pass(10_000);
  expect(calls).toEqual(['resume after 5000']);
  pass(10_000);
  expect(calls.slice(1)).toEqual(['resume after 5000', 'list after 0', 'first']);
});

test('counts no replacement while no watch is open', () => {
  replacements = ['noWatch'];
  watchdog.start();
  pass(10_000);
  expect(calls).toEqual(['resume after 5000']);
});

test('lets a watch be whose wait has just begun, when the check of an earlier one is due', () => {
  watchdog.start();
  pass(1000);
  watchdog.delivered();
  waitingSinceMs = undefined;
  pass(8000);
  waitingSinceMs = nowMs;
  watchdog.start();
  pass(9000);
  expect(calls).toEqual([]);
  pass(1000);
  expect(calls).toEqual(['resume after 5000', 'first']);
});

test('does nothing after it was stopped', () => {
  watchdog.start();
  watchdog.stop();
  pass(60_000);
  expect(calls).toEqual([]);
});
