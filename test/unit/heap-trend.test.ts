import { expect, test } from '@jest/globals';
import { relativeIncrease } from '../run/heap-trend.ts';

const line = (heap: (minute: number) => number) =>
  Array.from({ length: 11 }, (_, minute) => ({ elapsedMs: minute * 60_000, heapBytes: heap(minute) }));

test('a heap that fluctuates around one value does not increase', () => {
  expect(relativeIncrease(line((minute) => 1000 + (minute % 2) * 10))).toBeCloseTo(0, 2);
});

test('the first fifth does not count', () => {
  expect(relativeIncrease(line((minute) => (minute < 2 ? 500 : 1000)))).toBe(0);
});

test('a leak shows as a fraction of the mean heap', () => {
  expect(relativeIncrease(line((minute) => 1000 + minute * 50))).toBeCloseTo(400 / 1300);
});

test('two samples are too few', () => {
  expect(() => relativeIncrease(line(() => 1).slice(0, 2))).toThrow(RangeError);
});
