import { describe, expect, test } from '@jest/globals';
import { dayFromText, dayText, isCalendarDay, nextDay } from '../../../../packages/petstore/src/wire/calendar-day.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';

describe('a calendar day', () => {
  test.each([
    [2020, 2, 29, true],
    [2021, 2, 29, false],
    [1900, 2, 29, false],
    [2000, 2, 29, true],
    [2021, 4, 31, false],
    [2021, 12, 31, true],
    [2021, 13, 1, false],
    [2021, 0, 1, false],
    [2021, 1, 0, false],
    [0, 1, 1, false],
    [1, 1, 1, true],
    [9999, 12, 31, true],
    [10_000, 1, 1, false],
    [-1, 1, 1, false],
    [2021, Number.NaN, 1, false],
  ])('%d-%d-%d: %s', (year, month, day, expected) => {
    expect(isCalendarDay({ year, month, day })).toBe(expected);
  });

  test.each(['2021-02-30', '2021-2-3', '21-02-03', '2021-02-03T00:00:00Z', '', ' 2021-02-03', '0000-01-01'])(
    '%j is none',
    (text) => {
      expect(dayFromText(text)).toBeUndefined();
    },
  );

  test("is parsed from its text, and its next day is JavaScript's", () => {
    const first = Date.parse('0001-01-01T00:00:00Z') / 86_400_000;
    const last = Date.parse('9999-12-30T00:00:00Z') / 86_400_000;
    const textOf = (day: number): string => new Date(day * 86_400_000).toISOString().slice(0, 10);
    fc.assert(
      fc.property(fc.integer({ min: first, max: last }), (day) => {
        const found = dayFromText(textOf(day));
        expect(found && dayText(found)).toBe(textOf(day));
        const next = found && nextDay(found);
        expect(next && dayText(next)).toBe(textOf(day + 1));
      }),
    );
    expect(nextDay({ year: 9999, month: 12, day: 31 })).toBeUndefined();
  });
});
