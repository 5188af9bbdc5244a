import { describe, expect, test } from '@jest/globals';
import { growthOf } from '../../../../src/controllers/book-store/growth.ts';
import { claim } from './objects.ts';

const pendingAt = (lastTransitionTime: string | undefined) => ({
  conditions: [
    { type: 'Resizing', status: 'True' },
    { type: 'FileSystemResizePending', status: 'True', ...(lastTransitionTime && { lastTransitionTime }) },
  ],
});
const none = { unfinished: [], pending: [], errors: [] };

describe('how far claims are', () => {
  test('those that hold as much, or more, are there', () => {
    expect(growthOf([claim('data-a-db-0', '1Gi'), claim('data-a-db-1', '3Gi')], '1024Mi')).toEqual(none);
    expect(growthOf([], '1Gi')).toEqual(none);
  });

  test('what is asked for is not what is there', () => {
    const asking = claim('data-a-db-0', '2Gi', { capacity: { storage: '1Gi' } });
    expect(growthOf([asking], '2Gi')).toEqual({ ...none, unfinished: ['data-a-db-0'] });
  });

  test('one without a volume holds up nobody', () => {
    const waiting = { phase: 'Pending', capacity: undefined };
    expect(growthOf([claim('data-a-db-0', '1Gi', waiting)], '2Gi')).toEqual(none);
  });

  test('one whose file system waits says since when, and for which pod', () => {
    const status = { capacity: { storage: '1Gi' }, ...pendingAt('2026-01-02T03:04:05Z') };
    expect(growthOf([claim('data-a-db-12', '2Gi', status)], '2Gi').pending).toEqual([
      { claim: 'data-a-db-12', ordinal: 12, sinceMs: Date.parse('2026-01-02T03:04:05Z') },
    ]);
    const unknown = { capacity: { storage: '1Gi' }, ...pendingAt(undefined) };
    expect(growthOf([claim('data-a-db-0', '2Gi', unknown)], '2Gi').pending[0]?.sinceMs).toBe(0);
  });

  test('a condition that has stayed although the volume has grown is none', () => {
    expect(growthOf([claim('data-a-db-0', '2Gi', pendingAt('2026-01-02T03:04:05Z'))], '2Gi')).toEqual(none);
  });

  test.each(['ControllerResizeError', 'NodeResizeError'])('%s is told in its own words', (type) => {
    const conditions = [{ type, status: 'True', message: 'no room' }];
    const failing = claim('data-a-db-0', '2Gi', { capacity: { storage: '1Gi' }, conditions });
    expect(growthOf([failing], '2Gi').errors).toEqual(['data-a-db-0: no room']);
  });
});
