/** A day of the Gregorian calendar from 0001-01-01 to 9999-12-31, without a time zone. */
export interface CalendarDay {
  readonly year: number;
  /** 1 to 12. */
  readonly month: number;
  readonly day: number;
}

/** Whether the day exists: false for February 30, and for a date whose year, month or day is 0. */
export function isCalendarDay({ year, month, day }: CalendarDay): boolean {
  if (!(year >= 1 && year <= 9999 && month >= 1 && month <= 12 && day >= 1)) return false;
  return day <= daysIn(year, month);
}

/** Formats the day as ISO 8601: 2020-01-31. */
export const dayText = ({ year, month, day }: CalendarDay): string =>
  `${String(year).padStart(4, '0')}-${String(month).padStart(2, '0')}-${String(day).padStart(2, '0')}`;

/** Parses what {@link dayText} formats; undefined for any other text and for a day that does not exist. */
export function dayFromText(text: string): CalendarDay | undefined {
  const [, year, month, day] = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text) ?? [];
  const found = { year: Number(year), month: Number(month), day: Number(day) };
  return isCalendarDay(found) ? found : undefined;
}

/** The next day; undefined after 9999-12-31. */
export function nextDay({ year, month, day }: CalendarDay): CalendarDay | undefined {
  const candidates = [
    { year, month, day: day + 1 },
    { year, month: month + 1, day: 1 },
    { year: year + 1, month: 1, day: 1 },
  ];
  return candidates.find(isCalendarDay);
}

function daysIn(year: number, month: number): number {
  if (month === 2) return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28;
  return [4, 6, 9, 11].includes(month) ? 30 : 31;
}
