import { describe, expect, test } from '@jest/globals';
import { waitLeftMs } from '../../../../src/controllers/book-store/patience.ts';
import type { StatefulSet } from '../../../../src/controllers/built-in-kinds.ts';
import { bookStore } from './objects.ts';

const beganMs = Date.parse('2026-01-02T03:00:00Z');
const minutes = 60_000;
const growing = { unfinished: ['data-shop-db-0'], pending: [], errors: [] };

const complete = {
  metadata: { generation: 1 },
  spec: { replicas: 1 },
  status: { observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1 },
} as unknown as StatefulSet;

const resizing = (status: 'True' | 'False') => ({
  ...bookStore(),
  status: {
    conditions: [
      { type: 'VolumeResizing', status, reason: 'x', message: 'x', lastTransitionTime: '2026-01-02T03:00:00Z' },
    ],
  },
});

describe('a change of the pods', () => {
  test('waits for a growth that nobody has told of yet', () => {
    expect(waitLeftMs(bookStore(), complete, growing, beganMs)).toBe(15 * minutes);
    expect(waitLeftMs(resizing('False'), complete, growing, beganMs + 60 * minutes)).toBe(15 * minutes);
  });

  test.each([
    [0, 15],
    [14, 1],
    [15, 0],
    [100, 0],
  ])('waits after %d minutes for %d more, whoever was there since', (past, left) => {
    expect(waitLeftMs(resizing('True'), complete, growing, beganMs + past * minutes)).toBe(left * minutes);
  });

  test('does not wait where it may be what helps', () => {
    expect(waitLeftMs(resizing('True'), complete, { ...growing, errors: ['no room'] }, beganMs)).toBe(0);
    const unready = { ...complete, status: { ...complete.status, availableReplicas: 0 } } as unknown as StatefulSet;
    expect(waitLeftMs(resizing('True'), unready, growing, beganMs)).toBe(0);
  });
});
