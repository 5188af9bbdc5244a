import { cutErrorTexts, cutText, quoteText } from '@echoperator/runtime/client';
import { expect, test } from '@jest/globals';

test('a text of up to 4,096 characters stays as it is', () => {
  const text = 'x'.repeat(4096);
  expect(cutText(text)).toBe(text);
});

test('a longer text is cut, and says how long it was', () => {
  expect(cutText('x'.repeat(5000))).toBe(`${'x'.repeat(4096)} … (5000 characters)`);
});

test('the result is well-formed, because the API server would store another character and so differ from it', () => {
  const faces = '\u{1f600}'.repeat(3000);
  expect(cutText(`a${faces}`)).toBe(`a${faces.slice(0, 4094)}\u{fffd} … (6001 characters)`);
  expect(cutText('a\ud83d')).toBe('a\u{fffd}');
});

test('of an error each text is cut, also its stack, which a logger prints', () => {
  const long = 'x'.repeat(100_000);
  const error = Object.assign(new Error(long), { detail: long, code: '23514', severity: 'ERROR' });
  cutErrorTexts(error);
  expect(error).toMatchObject({ message: cutText(long), detail: cutText(long), code: '23514', severity: 'ERROR' });
  expect(error.stack?.length).toBeLessThan(4200);
});

test('what is no error is left alone', () => {
  expect(() => cutErrorTexts(undefined)).not.toThrow();
  expect(() => cutErrorTexts('x')).not.toThrow();
});

test('a text is quoted after it was cut', () => {
  expect(quoteText('"'.repeat(5000))).toBe(JSON.stringify(cutText('"'.repeat(5000))));
  expect(quoteText('"'.repeat(1_000_000)).length).toBeLessThan(9000);
});
