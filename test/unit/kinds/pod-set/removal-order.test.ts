import type { Pod } from '@echoperator/runtime/kinds';
import { expect, test } from '@jest/globals';
import { inOrderOfRemoval } from '../../../../src/kinds/pod-set/removal.ts';

interface Traits {
  readonly node?: string;
  readonly phase?: string;
  readonly readySince?: string;
  readonly cost?: string;
  readonly restarts?: number;
  readonly created?: string;
}

const pod = (name: string, traits: Traits = {}): Pod => {
  const { phase = 'Running', readySince, cost, restarts = 0, created = '2026-01-01T00:00:00Z' } = traits;
  const { node = `node-of-${name}` } = traits;
  return {
    metadata: {
      name,
      namespace: 'default',
      uid: name,
      resourceVersion: '1',
      creationTimestamp: created,
      ...(cost !== undefined && { annotations: { 'controller.kubernetes.io/pod-deletion-cost': cost } }),
    },
    spec: { containers: [], ...(node !== '' && { nodeName: node }) },
    status: {
      phase,
      ...(readySince !== undefined && {
        conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: readySince }],
      }),
      containerStatuses: [{ name: 'c', restartCount: restarts, ready: true, image: '', imageID: '' }],
    },
  };
};

const [early, late] = ['2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z'];

// Each goes before the other, though in all that counts less it would be the other way round.
test.each([
  ['without a node', pod('a', { node: '', readySince: early }), pod('b', { phase: 'Pending' })],
  ['pending', pod('a', { phase: 'Pending', readySince: early }), pod('b', { phase: 'Running' })],
  ['not ready', pod('a', { cost: '5' }), pod('b', { readySince: late, cost: '-5' })],
  ['of a lower cost', pod('a', { readySince: early, cost: '-1' }), pod('b', { readySince: late })],
  ['ready for less time', pod('a', { readySince: late }), pod('b', { readySince: early, restarts: 9 })],
  ['that restarted more', pod('a', { readySince: early, restarts: 2 }), pod('b', { readySince: early, created: late })],
  ['that is younger', pod('a', { readySince: early, created: late }), pod('b', { readySince: early, created: early })],
])('one %s goes first', (_, first, second) => {
  expect(inOrderOfRemoval([second, first])).toEqual([first, second]);
  expect(inOrderOfRemoval([first, second])).toEqual([first, second]);
});

test('one with more siblings on its node goes before one that is alone, though that is ready for less time', () => {
  const [one, two] = [pod('one', { node: 'n', readySince: early }), pod('two', { node: 'n', readySince: early })];
  const alone = pod('alone', { readySince: late });
  expect(inOrderOfRemoval([alone, one, two]).at(-1)).toBe(alone);
});

test('a cost that is no number counts as none', () => {
  const [strange, cheap] = [pod('strange', { cost: 'much' }), pod('cheap', { cost: '-1' })];
  expect(inOrderOfRemoval([strange, cheap])).toEqual([cheap, strange]);
});
