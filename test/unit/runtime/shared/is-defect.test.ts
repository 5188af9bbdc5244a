import { expect, test } from '@jest/globals';
import { isDefect } from '../../../../packages/runtime/src/shared/is-defect.ts';

const withCode = (error: Error, code: string): Error => Object.assign(error, { code });
/** An error of `fetch`: it wraps the cause in a TypeError. */
const fetchFailed = (cause: unknown): TypeError => new TypeError('fetch failed', { cause });

test.each([
  ['no Error', 'text'],
  ['undefined', undefined],
  ['a TypeError', new TypeError('x is not a function')],
  ['a TypeError with a cause', fetchFailed(new Error('bad port'))],
  ['a ReferenceError', new ReferenceError('x is not defined')],
  ['a RangeError', new RangeError('Invalid array length')],
  ['an invalid URL for fetch', fetchFailed(withCode(new TypeError('Invalid URL'), 'ERR_INVALID_URL'))],
])('%s is a programming error', (_, error) => {
  expect(isDefect(error)).toBe(true);
});

test.each([
  ['an Error', new Error('no')],
  ['a refused connection of fetch', fetchFailed(withCode(new Error('connect ECONNREFUSED'), 'ECONNREFUSED'))],
  ['all addresses refused', fetchFailed(withCode(new AggregateError([]), 'ECONNREFUSED'))],
  ['a lost connection of fetch', fetchFailed(withCode(new Error('other side closed'), 'UND_ERR_SOCKET'))],
])('%s is no programming error', (_, error) => {
  expect(isDefect(error)).toBe(false);
});
