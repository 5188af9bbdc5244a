const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/**
 * A duration as Go writes it, `1h30m` or `2.5s`, in milliseconds.
 *
 * @throws RangeError for what is none: the kind's schema lets no such one in.
 */
export function durationMs(text: string): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  if (text === '' || parts.map(([part]) => part).join('') !== text) {
    throw new RangeError(`a duration is written as 1h30m or 90s, not ${JSON.stringify(text)}`);
  }
  return parts.reduce((sum, [, amount, unit = '']) => sum + Number(amount) * (unitMs[unit] ?? 0), 0);
}
