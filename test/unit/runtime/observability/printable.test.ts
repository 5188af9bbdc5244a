import { formatExplanation, printable, printableLines } from '@echoperator/runtime/process';
import { expect, test } from '@jest/globals';

test.each([
  ['Thor Odinson, é, 猫, \u{1f431}', 'Thor Odinson, é, 猫, \u{1f431}'],
  ['\u001b]0;owned\u0007\u001b[31mred', '\\u001b]0;owned\\u0007\\u001b[31mred'],
  ['two\nlines\r', 'two\\u000alines\\u000d'],
  ['\u009b31m\u007f', '\\u009b31m\\u007f'],
  ['a\u202egnp.exe\u2066\u2028', 'a\\u202egnp.exe\\u2066\\u2028'],
])('%j is printed as %j', (text, printed) => {
  expect(printable(text)).toBe(printed);
});

test('a text of several lines keeps them', () => {
  expect(printableLines('one\n\u001b[2Jtwo\n')).toBe('one\n\\u001b[2Jtwo\n');
});

test('an explanation as text has no control characters', () => {
  expect(formatExplanation({ notes: ['\u001b[2J'], problem: 'no\u0007' })).toBe('\\u001b[2J\nno\\u0007');
});

test('JSON means the same', () => {
  const value = { name: '\u009b\u202e\u001b\n' };
  expect(JSON.parse(printable(JSON.stringify(value)))).toEqual(value);
  expect(JSON.parse(printableLines(JSON.stringify(value, undefined, 2)))).toEqual(value);
});
