import { expect, test } from '@jest/globals';
import { rise } from '../run/heap-line.ts';

const line = (heap: (minute: number) => number) =>
  Array.from({ length: 11 }, (_, minute) => ({ elapsedMs: minute * 60_000, heapBytes: heap(minute) }));

test('a heap that goes up and down around one value is flat', () => {
  expect(rise(line((minute) => 1000 + (minute % 2) * 10))).toBeCloseTo(0, 2);
});

test('what the first fifth takes does not count', () => {
  expect(rise(line((minute) => (minute < 2 ? 500 : 1000)))).toBe(0);
});

test('a leak shows as the part of the heap that it has taken', () => {
  expect(rise(line((minute) => 1000 + minute * 50))).toBeCloseTo(400 / 1300);
});

test('two samples are refused', () => {
  expect(() => rise(line(() => 1).slice(0, 2))).toThrow(RangeError);
});
