import { expect, test } from '@jest/globals';
import { differenceOf, type Facts } from '../../../packages/testing/src/facts.ts';

const facts = (...entries: readonly (readonly [string, unknown])[]): Facts => new Map(entries);

test.each([
  ['equal facts', facts(['Pod a.b #1.spec.x', 1]), facts(['Pod a.b #1.spec.x', 1]), undefined],
  ['another value', facts(['Pod a.b #1.spec.x', 1]), facts(['Pod a.b #1.spec.x', 2]), 'Pod a.b #1.spec.x is 2, not 1'],
  [
    'a member that is missing',
    facts(['Pod a.b #1.kind', 'Pod'], ['Pod a.b #1.spec.x', 1]),
    facts(['Pod a.b #1.kind', 'Pod']),
    'Pod a.b #1.spec.x is undefined, not 1',
  ],
  ['an object that is missing', facts(['Pod a.b #1.spec.x', 1]), facts(), 'Pod a.b #1 is missing'],
  [
    'an object too many',
    facts(),
    facts(['Pod a.b #1.spec.x', 1]),
    'Pod a.b #1 exists, and does not in the undisturbed run',
  ],
  ['what is external', facts(['external 1.x', 1]), facts(), 'external 1.x is undefined, not 1'],
])('the difference of %s', (_, expected, actual, difference) => {
  expect(differenceOf(expected, actual)).toBe(difference);
});
