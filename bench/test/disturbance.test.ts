import { expect, test } from '@jest/globals';
import { testOnLinux } from '../../testkit/on-linux.ts';
import { busySeconds, readTicks, ticksBelow, watchOthers } from '../disturbance.ts';

test('programs and stolen time count as busy; idle time, waits and interrupts do not', () => {
  //                          user nice system idle  iowait irq softirq steal
  const stat = 'cpu  1000 200 300 90000 5000 70 80 40 0 0\ncpu0 500 100 150 45000 2500 35 40 20 0 0\n';
  expect(busySeconds(stat)).toBe(15.4);
});

test("a process's ticks include those of its ended children, for any name of the process", () => {
  const stat = '42 (a) b) c) S 7 42 42 0 -1 4194304 100 0 0 0 11 22 3 4 20 0 1 0 100';
  expect(readTicks(stat)).toEqual({ parent: 7, ticks: 40 });
});

test('the ticks below some processes count each of their descendants once', () => {
  const processes = new Map([
    [1, { parent: 0, ticks: 1000 }],
    [10, { parent: 1, ticks: 1 }],
    [11, { parent: 10, ticks: 2 }],
    [12, { parent: 11, ticks: 4 }],
    [20, { parent: 1, ticks: 8 }],
    // Its parent has ended since.
    [30, { parent: 29, ticks: 16 }],
  ]);
  expect(ticksBelow([10], processes)).toBe(7);
  expect(ticksBelow([10, 11, 20], processes)).toBe(15);
});

// /proc is Linux's.
testOnLinux('of this machine a share is told', async () => {
  const others = await watchOthers();
  const share = await others();
  expect(share).toBeGreaterThanOrEqual(0);
  expect(Number.isFinite(share)).toBe(true);
});
