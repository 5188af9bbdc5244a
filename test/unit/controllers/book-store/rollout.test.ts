import { describe, expect, test } from '@jest/globals';
import { rolloutOf } from '../../../../src/controllers/book-store/rollout.ts';
import type { Deployment } from '../../../../src/controllers/built-in-kinds.ts';

const all = { observedGeneration: 2, replicas: 3, updatedReplicas: 3, availableReplicas: 3 };
const rollout = (status: object | undefined, replicas = 3) =>
  rolloutOf({ metadata: { generation: 2 }, spec: { replicas }, status } as unknown as Deployment);

describe('a rollout', () => {
  test('is complete when all pods are there, new and ready, and no others', () => {
    expect(rollout(all)).toEqual({ desired: 3, ready: 3, updated: 3, isComplete: true });
    expect(rollout({ observedGeneration: 2 }, 0).isComplete).toBe(true);
  });

  test.each([
    ['was not seen by its controller', { observedGeneration: 1 }],
    ['has an old pod more', { replicas: 4 }],
    ['has a pod of an earlier template', { updatedReplicas: 2 }],
    ['has a pod that is not ready', { availableReplicas: 2 }],
  ])('is not when it %s', (_, status) => {
    expect(rollout({ ...all, ...status }).isComplete).toBe(false);
  });

  test('is not when nothing is known', () => {
    expect(rollout(undefined)).toEqual({ desired: 3, ready: 0, updated: 0, isComplete: false });
  });
});
