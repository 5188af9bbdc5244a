import type { Condition } from '@echoperator/runtime';
import { desiredStatus } from '@echoperator/runtime/controller';
import { describe, expect, test } from '@jest/globals';
import { statusPatch } from '../../../../packages/runtime/src/kind/status-patch.ts';
import { echoReasons, outcomeOf } from '../../../../src/kinds/echo/controller.ts';
import type { Echo } from '../../../../src/kinds/echo/kind.ts';
import { complete, completionTime, echoOf, failed, jobOf, startTime } from './echos.ts';

const now = new Date('2026-02-02T00:00:00.5Z');
const echo = echoOf({ metadata: { generation: 2 } });

describe('the outcome', () => {
  const [noTimes, started] = [
    { startTime: null, completionTime: null },
    { startTime, completionTime: null },
  ];

  test.each([
    [{}, 'Printing', 'Job hello prints the message', { phase: 'Pending', ...noTimes }],
    [{ active: 1, startTime }, 'Printing', 'Job hello prints the message', { phase: 'Running', ...started }],
    [complete, 'Printed', 'Job hello has printed the message', { phase: 'Succeeded', startTime, completionTime }],
    [failed, 'JobFailed', 'Job hello has failed: too often', { phase: 'Failed', ...started }],
  ])('of a Job that is %j', (status, reason, message, fields) => {
    expect(outcomeOf(echo, jobOf(echo, status))).toEqual({
      reason,
      message,
      status: { jobName: 'hello', ...fields, ...(reason === 'Printed' && { completedGeneration: 2 }) },
    });
  });
});

describe('the patch', () => {
  const printed = outcomeOf(echo, jobOf(echo, complete));
  const printing = outcomeOf(echo, jobOf(echo));
  const patchOf = (object: Echo, outcome: typeof printed) =>
    statusPatch(object.status, desiredStatus(echoReasons, object, outcome, now));
  const ready: Condition = {
    type: 'Ready',
    status: 'True',
    reason: 'Printed',
    message: 'Job hello has printed the message',
    observedGeneration: 2,
    lastTransitionTime: '2026-01-01T00:00:02Z',
  };
  const foreign: Condition = { ...ready, type: 'Foreign', reason: 'Other' };
  const full: NonNullable<Echo['status']> = {
    phase: 'Succeeded',
    jobName: 'hello',
    startTime,
    completionTime,
    completedGeneration: 2,
    observedGeneration: 2,
    conditions: [foreign, ready],
  };
  const withStatus = (status: NonNullable<Echo['status']>): Echo => ({ ...echo, status });

  test('of an Echo without a status contains everything that was observed and nothing else', () => {
    expect(patchOf(echo, printing)).toEqual({
      phase: 'Pending',
      jobName: 'hello',
      observedGeneration: 2,
      conditions: [
        {
          type: 'Ready',
          status: 'False',
          reason: 'Printing',
          message: 'Job hello prints the message',
          observedGeneration: 2,
          lastTransitionTime: '2026-02-02T00:00:00Z',
        },
      ],
    });
  });

  test('is empty if the status is equal, in any order', () => {
    expect(patchOf(withStatus(full), printed)).toBeUndefined();
    const reversed = Object.fromEntries(Object.entries(full).reverse()) as typeof full;
    expect(patchOf(withStatus(reversed), printed)).toBeUndefined();
  });

  test('removes outdated fields by null, and omits unchanged ones', () => {
    expect(patchOf(withStatus(full), printing)).toEqual({
      phase: 'Pending',
      startTime: null,
      completionTime: null,
      conditions: [
        foreign,
        {
          ...ready,
          status: 'False',
          reason: 'Printing',
          message: 'Job hello prints the message',
          lastTransitionTime: '2026-02-02T00:00:00Z',
        },
      ],
    });
  });

  test('never removes completedGeneration', () => {
    expect(patchOf(withStatus(full), printing)).not.toHaveProperty('completedGeneration');
    expect(patchOf(withStatus({ ...full, completedGeneration: 1 }), printed)).toEqual({
      completedGeneration: 2,
    });
  });

  test('of a new generation updates observedGeneration', () => {
    const newer = echoOf({ metadata: { generation: 3 }, status: full });
    expect(patchOf(newer, outcomeOf(newer, jobOf(newer, complete)))).toEqual({
      observedGeneration: 3,
      completedGeneration: 3,
      conditions: [foreign, { ...ready, observedGeneration: 3 }],
    });
  });

  test("keeps others' conditions, which a list in a merge patch would remove", () => {
    const patch = patchOf(withStatus({ ...full, conditions: [foreign] }), printed);
    expect(patch).toEqual({ conditions: [foreign, { ...ready, lastTransitionTime: '2026-02-02T00:00:00Z' }] });
  });
});
