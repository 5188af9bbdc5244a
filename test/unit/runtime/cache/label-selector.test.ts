import { expect, test } from '@jest/globals';
import { parseFieldSelector, parseLabelSelector } from '../../../../packages/runtime/src/cache/label-selector.ts';

const labels: Readonly<Record<string, string>> = { app: 'web', 'example.com/tier': 'front', empty: '' };
const read = (key: string): string | undefined => labels[key];

test.each<[string, boolean]>([
  ['', true],
  ['app=web', true],
  ['app==web', true],
  ['app = web , empty=', true],
  ['app=db', false],
  ['app!=db', true],
  ['app!=web', false],
  ['none!=web', true],
  ['none=', false],
  ['app', true],
  ['none', false],
  ['!none', true],
  ['! app', false],
  ['app in (db,web)', true],
  ['app in (db, web), example.com/tier in (front)', true],
  ['app in (db)', false],
  ['app notin (db, web)', false],
  ['none notin (db)', true],
  ['none in ()', false],
  ['app=web,example.com/tier=back', false],
])('the label selector %j matches: %p', (selector, fits) => {
  expect(parseLabelSelector(selector)?.(read)).toBe(fits);
});

test.each(['app>1', 'app in db', '(', '!app=web'])('the label selector %j is not parsed', (selector) => {
  expect(parseLabelSelector(selector)).toBeUndefined();
});

test.each<[string, boolean | undefined]>([
  ['metadata.name=web', true],
  ['metadata.name!=web', false],
  ['metadata.name==web,metadata.namespace=', true],
  ['metadata.namespace!=x', true],
  ['metadata.name', undefined],
  ['metadata.name=a\\,b', undefined],
  ['metadata.name=web,spec.unschedulable=false', undefined],
])('the field selector %j matches: %p', (selector, fits) => {
  const fields: Readonly<Record<string, string>> = { 'metadata.name': 'web' };
  expect(parseFieldSelector(selector)?.((field) => fields[field])).toBe(fits);
});
