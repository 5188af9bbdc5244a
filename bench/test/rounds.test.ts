import { describe, expect, test } from '@jest/globals';
import type { Operator } from '../operators.ts';
import { differenceOf, inOrder, takingPart } from '../rounds.ts';
import { turn } from './results.ts';

test('every other round is reversed', () => {
  expect([0, 1, 2].map((round) => inOrder(['a', 'b', 'c'], round).join(''))).toEqual(['abc', 'cba', 'abc']);
});

test('the client-node peer takes part only in the first rounds', () => {
  const operators: readonly Operator[] = (['echoperator', 'client-node'] as const).map((name) => ({
    name,
    command: [name],
    environment: {},
  }));
  const names = [0, 1, 2].map((round) => takingPart(operators, round, 2).map(({ name }) => name));
  expect(names).toEqual([['echoperator', 'client-node'], ['echoperator', 'client-node'], ['echoperator']]);
});

describe('a round', () => {
  const alike = { burst: 'create jobs 1', '50/s': 'create jobs 1' };

  test('with equal requests counts, even if one contender skipped a part', () => {
    const turns = {
      echoperator: turn({}, { requests: alike }),
      ceiling: turn({}, { requests: { burst: 'create jobs 1' } }),
    };
    expect(differenceOf(turns)).toBeUndefined();
    expect(differenceOf({ echoperator: turn({}) })).toBeUndefined();
  });

  test('with different requests is void, and the reason names the contenders', () => {
    const more = { ...alike, '50/s': 'create jobs 1.002' };
    expect(differenceOf({ echoperator: turn({}, { requests: alike }), 'kube-rs': turn({}, { requests: more }) })).toBe(
      'requests an Echo differ (50/s): echoperator create jobs 1; kube-rs create jobs 1.002',
    );
  });
});
