import { describe, expect, test } from '@jest/globals';
import { pacesOf } from '../paces.ts';
import type { Contender, Round, VoidRound } from '../results.ts';
import { differenceOf, inOrder, type RoundsTaken, takeRound, takesPart } from '../rounds.ts';
import { TurnError } from '../running-operator.ts';
import { turn } from './results.ts';

test('every other round is reversed', () => {
  expect([0, 1, 2].map((round) => inOrder(['a', 'b', 'c'], round).join(''))).toEqual(['abc', 'cba', 'abc']);
});

test('a contender with its own number of rounds takes part only in the first ones', () => {
  const plan = { someRounds: { 'client-node': 2 } } as const;
  expect([0, 1, 2].map((round) => takesPart('client-node', round, plan))).toEqual([true, true, false]);
  expect(takesPart('kube-rs', 99, plan)).toBe(true);
});

test('the paces are parts of the rate of the slower peer, and none without a peer', () => {
  expect(pacesOf(125)).toEqual({ 30: 38, 60: 75, 90: 113 });
  expect(pacesOf(undefined)).toEqual({});
});

/** Keeps what was taken. Repeats once. */
class Taken implements RoundsTaken {
  readonly counted: Round[] = [];
  readonly voids: VoidRound[] = [];
  #repeats = 1;

  async counts(round: Round) {
    this.counted.push(round);
  }

  async isVoid(round: VoidRound) {
    this.voids.push(round);
  }

  async isRepeated() {
    return this.#repeats-- > 0;
  }
}

describe('a round', () => {
  test('that others disturbed is run again while repeats are left, and then counts', async () => {
    const taken = new Taken();
    const disturbances = [0.2, 0.3, 0.4, 0];
    const take = async () => turn({}, { disturbance: disturbances.shift() ?? 1 });
    await takeRound({ scenario: 'load' }, 'round 1', [['echoperator', take]], taken);
    expect(taken.counted.map(({ turns }) => turns.echoperator?.disturbance)).toEqual([0.3]);
    await takeRound({ scenario: 'load' }, 'round 2', [['echoperator', take]], taken);
    await takeRound({ scenario: 'load' }, 'round 3', [['echoperator', take]], taken);
    expect(taken.counted.map(({ turns }) => turns.echoperator?.disturbance)).toEqual([0.3, 0.4, 0]);
  });

  test('whose turn fails is void, and names the contender', async () => {
    const taken = new Taken();
    const fail = async () => Promise.reject(new TurnError('no Jobs'));
    await takeRound(
      { scenario: 'load' },
      'round 1',
      [
        ['ceiling', async () => turn({})],
        ['echoperator', fail],
      ],
      taken,
    );
    expect(taken.counted).toEqual([]);
    expect(taken.voids).toEqual([
      { scenario: 'load', turns: { ceiling: turn({}) }, failed: 'echoperator', reason: 'no Jobs' },
    ]);
  });

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
    const turns = { echoperator: turn({}, { requests: alike }), 'kube-rs': turn({}, { requests: more }) };
    expect(differenceOf(turns)).toEqual({
      reason: 'requests per Echo differ (50/s): echoperator create jobs 1; kube-rs create jobs 1.002',
    });
  });

  describe('with different requests', () => {
    const takeWith = async (requests: Partial<Record<Contender, number>>) => {
      const taken = new Taken();
      const turns = (Object.keys(requests) as Contender[]).map((name) => {
        const take = async () => turn({}, { requests: { burst: `create jobs ${requests[name]}` } });
        return [name, take] as const;
      });
      await takeRound({ scenario: 'load' }, 'round 1', turns, taken);
      return taken.voids.map(({ failed }) => failed);
    };

    test('is a failure of ours if the others agree', async () => {
      expect(await takeWith({ echoperator: 2, 'controller-runtime': 1, 'kube-rs': 1 })).toEqual(['echoperator']);
      expect(await takeWith({ echoperator: 2, 'kube-rs': 1, ceiling: 1 })).toEqual(['echoperator']);
    });

    test('is no failure of ours if another is the odd one, or if there is only one other', async () => {
      expect(await takeWith({ echoperator: 1, 'controller-runtime': 1, 'kube-rs': 2 })).toEqual([undefined]);
      expect(await takeWith({ echoperator: 1, 'controller-runtime': 3, 'kube-rs': 2 })).toEqual([undefined]);
      expect(await takeWith({ echoperator: 2, 'kube-rs': 1 })).toEqual([undefined]);
    });
  });
});
