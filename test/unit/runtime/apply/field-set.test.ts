import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { fieldSetHash } from '../../../../src/runtime/apply/field-set.ts';
import { schemaOf } from '../../../../src/runtime/apply/kind-schema.ts';
import { Deployment } from '../../../../src/runtime/kinds/index.ts';

const hash = (spec: object): string => fieldSetHash({ spec: { template: { spec } } }, schemaOf(Deployment));

const pod = {
  containers: [
    {
      name: 'a',
      image: 'x:1',
      env: [
        { name: 'A', value: '1' },
        { name: 'B', value: '2' },
      ],
      args: ['-v'],
    },
  ],
  nodeSelector: { disk: 'ssd' },
};
const withContainer = (changes: object): object => ({ ...pod, containers: [{ ...pod.containers[0], ...changes }] });

test('is 16 hexadecimal digits', () => expect(hash(pod)).toMatch(/^[0-9a-f]{16}$/));

test('is the same in every run: it is kept in the cluster', () => {
  expect(hash(pod)).toBe('35e71c8e0b9977f6');
});

describe('is the same', () => {
  test.each([
    ['with other values', withContainer({ image: 'x:2', args: ['-q'] })],
    ['with its fields in another order', { nodeSelector: pod.nodeSelector, containers: pod.containers }],
    [
      'with its items in another order',
      withContainer({
        env: [
          { value: '', name: 'B' },
          { name: 'A', value: '' },
        ],
      }),
    ],
    ['with what is undefined or null', { ...pod, hostname: undefined, subdomain: null }],
  ])('%s', (_, other) => expect(hash(other)).toBe(hash(pod)));
});

describe('is another one', () => {
  test.each([
    ['without a field', withContainer({ image: undefined })],
    ['with one more', { ...pod, hostname: 'a' }],
    ['without an item', withContainer({ env: [{ name: 'A', value: '1' }] })],
    [
      'with an item of another key',
      withContainer({
        env: [
          { name: 'A', value: '1' },
          { name: 'C', value: '2' },
        ],
      }),
    ],
    ['with a longer atomic list', withContainer({ args: ['-v', '-v'] })],
    ['with an empty object', { ...pod, securityContext: {} }],
    ['with a key elsewhere', { ...pod, nodeSelector: {}, disk: 'ssd' }],
  ])('%s', (_, other) => expect(hash(other)).not.toBe(hash(pod)));

  test('for any two sets of fields', () => {
    const unknown = { type: 'unknown' } as const;
    const tree = fc.dictionary(fc.string({ maxLength: 2 }), fc.dictionary(fc.string({ maxLength: 2 }), fc.constant(1)));
    const fields = (value: Record<string, object>): string =>
      JSON.stringify(
        Object.entries(value)
          .map(([key, part]) => [key, Object.keys(part).sort()])
          .sort(),
      );
    fc.assert(
      fc.property(tree, tree, (a, b) => {
        expect(fieldSetHash(a, unknown) === fieldSetHash(b, unknown)).toBe(fields(a) === fields(b));
      }),
      { numRuns: 1000 },
    );
  });
});
