import { describe, expect, test } from '@jest/globals';
import { echoJob, failureMessage, jobNameOf, jobPhase } from '../../../../src/kinds/echo/echo-job.ts';
import { podSettings } from '../../../../testkit/pod-settings.ts';
import { complete, echoOf, failed, jobOf } from './echos.ts';

describe('the Job of an Echo', () => {
  test('has a name that fits into a label of its pods', () => {
    expect(jobNameOf(echoOf({ metadata: { name: 'x'.repeat(253) } }))).toHaveLength(63);
  });

  test.each([
    [{ message: 'a' }, undefined],
    [{ message: 'a', ttlSecondsAfterFinished: 0 }, 0],
    [{ message: 'a', ttlSecondsAfterFinished: 60 }, 60],
  ])('has the ttlSecondsAfterFinished of %j', (spec, ttl) => {
    const job = echoJob(echoOf({ spec }), podSettings);
    expect(job.spec?.ttlSecondsAfterFinished).toBe(ttl);
    expect(Object.hasOwn(job.spec ?? {}, 'ttlSecondsAfterFinished')).toBe(ttl !== undefined);
  });
});

describe('its phase', () => {
  const not = (type: string) => ({ conditions: [{ type, status: 'False' }] });
  test.each([
    ['Pending', {}],
    ['Pending', { active: 0 }],
    ['Running', { active: 1 }],
    ['Succeeded', complete],
    ['Failed', failed],
    ['Running', { active: 1, ...not('Complete') }],
    ['Pending', not('Failed')],
    // Between its pod's end and the condition of the Job, and before a failed pod is replaced, no pod is active.
    ['Running', { uncountedTerminatedPods: { succeeded: ['uid-pod'] }, ready: 0 }],
    ['Running', { uncountedTerminatedPods: { failed: ['uid-pod'] } }],
    ['Running', { active: 0, succeeded: 1 }],
    ['Running', { failed: 1 }],
    ['Pending', { failed: 1, conditions: [{ type: 'Suspended', status: 'True' }] }],
    ['Running', { failed: 1, ...not('Suspended') }],
    ['Pending', { active: 0, uncountedTerminatedPods: {} }],
    // What is about to be is not yet: its pods still end.
    ['Running', { active: 1, conditions: [{ type: 'SuccessCriteriaMet', status: 'True' }] }],
  ] as const)('is %s for %j', (phase, status) => {
    expect(jobPhase(jobOf(echoOf(), status))).toBe(phase);
  });

  test('is Pending before the job controller has observed the Job', () => {
    const { status: _, ...job } = jobOf(echoOf());
    expect(jobPhase(job)).toBe('Pending');
  });
});

test('the failure message quotes the job controller', () => {
  const failure = (condition: object) =>
    failureMessage(jobOf(echoOf(), { conditions: [{ type: 'Failed', status: 'True', ...condition }] }));
  expect(failure({ message: 'too often', reason: 'BackoffLimitExceeded' })).toBe('too often');
  expect(failure({ reason: 'BackoffLimitExceeded' })).toBe('BackoffLimitExceeded');
  expect(failure({})).toBe('the job controller gives no reason');
});
