import { Deployment } from '@echoperator/runtime/kinds';
import { describe, expect, test } from '@jest/globals';
import { fieldSetHash } from '../../../../packages/runtime/src/apply/field-set.ts';
import { schemaOf } from '../../../../packages/runtime/src/apply/kind-schema.ts';
import fc from '../../../../testkit/seeded-fast-check.ts';

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

test('has 16 hexadecimal digits', () => expect(hash(pod)).toMatch(/^[0-9a-f]{16}$/));

test('is the same in every process, because it is stored in the cluster', () => {
  expect(hash(pod)).toBe('35e71c8e0b9977f6');
});

describe('does not change', () => {
  test.each([
    ['for other values', withContainer({ image: 'x:2', args: ['-q'] })],
    ['for another order of fields', { nodeSelector: pod.nodeSelector, containers: pod.containers }],
    [
      'for another order of items',
      withContainer({
        env: [
          { value: '', name: 'B' },
          { name: 'A', value: '' },
        ],
      }),
    ],
    ['for undefined and null fields', { ...pod, hostname: undefined, subdomain: null }],
  ])('%s', (_, other) => expect(hash(other)).toBe(hash(pod)));
});

describe('changes', () => {
  test.each([
    ['for a missing field', withContainer({ image: undefined })],
    ['for an additional field', { ...pod, hostname: 'a' }],
    ['for a missing item', withContainer({ env: [{ name: 'A', value: '1' }] })],
    [
      'for an item with another key',
      withContainer({
        env: [
          { name: 'A', value: '1' },
          { name: 'C', value: '2' },
        ],
      }),
    ],
    ['for a longer atomic list', withContainer({ args: ['-v', '-v'] })],
    ['for an additional empty object', { ...pod, securityContext: {} }],
    ['for a key in another place', { ...pod, nodeSelector: {}, disk: 'ssd' }],
  ])('%s', (_, other) => expect(hash(other)).not.toBe(hash(pod)));

  test('for any two different sets of fields', () => {
    const schemaless = { type: 'schemaless' } as const;
    const tree = fc.dictionary(fc.string({ maxLength: 2 }), fc.dictionary(fc.string({ maxLength: 2 }), fc.constant(1)));
    const fields = (value: Record<string, object>): string =>
      JSON.stringify(
        Object.entries(value)
          .map(([key, part]) => [key, Object.keys(part).sort()])
          .sort(),
      );
    fc.assert(
      fc.property(tree, tree, (a, b) => {
        expect(fieldSetHash(a, schemaless) === fieldSetHash(b, schemaless)).toBe(fields(a) === fields(b));
      }),
      { numRuns: 1000 },
    );
  });
});
