import { beforeEach, describe, expect, test } from '@jest/globals';
import { DeletedJobs, jobKeyOf } from '../../../../src/controllers/echo/echo-job.ts';
import { keyOf } from '../../../../src/runtime/index.ts';
import { complete, echoOf, failed, jobOf } from './echos.ts';

const echo = echoOf();
const key = jobKeyOf(keyOf(echo));
const job = jobOf(echo, complete);

let jobs: DeletedJobs;
beforeEach(() => {
  jobs = new DeletedJobs();
});

test.each([
  ['completed', job],
  ['had not completed', jobOf(echo, { active: 1 })],
  ['failed', jobOf(echo, failed)],
])('a deleted Job that %s is kept', (_, deleted) => {
  jobs.observe(echo, { type: 'deleted', object: deleted });
  expect(jobs.get(echo, key)).toBe(deleted);
});

describe('DeletedJobs does not keep', () => {
  const running = jobOf(echo, { active: 1 });
  test.each([
    ['one that is there', { type: 'modified', object: job, previous: running }],
    ['one that has come', { type: 'added', object: job }],
    [
      'one of an earlier generation',
      { type: 'deleted', object: jobOf(echoOf({ metadata: { generation: 0 } }), complete) },
    ],
    ['one that belongs to nobody', { type: 'deleted', object: jobOf(echo, complete, { ownerReferences: [] }) }],
    [
      'one of another Echo of that name',
      { type: 'deleted', object: jobOf(echoOf({ metadata: { uid: 'uid-former' } }), complete) },
    ],
  ] as const)('%s', (_, delta) => {
    jobs.observe(echo, delta);
    expect(jobs.get(echo, key)).toBeUndefined();
  });
});

describe('a Job that DeletedJobs keeps', () => {
  beforeEach(() => jobs.observe(echo, { type: 'deleted', object: job }));

  test('is not returned for a later generation or for a new Echo of the same name', () => {
    expect(jobs.get(echoOf({ metadata: { generation: 2 } }), key)).toBeUndefined();
    expect(jobs.get(echoOf({ metadata: { uid: 'uid-again' } }), key)).toBeUndefined();
  });

  test('is not returned for an Echo in another namespace', () => {
    const other = echoOf({ metadata: { namespace: 'other' } });
    expect(jobs.get(other, jobKeyOf(keyOf(other)))).toBeUndefined();
  });

  test('is replaced by the Job of a later generation', () => {
    const later = echoOf({ metadata: { generation: 2 } });
    const laterJob = jobOf(later, complete);
    jobs.observe(later, { type: 'deleted', object: laterJob });
    expect(jobs.get(later, key)).toBe(laterJob);
    expect(jobs.get(echo, key)).toBeUndefined();
  });

  test('is not replaced by a Job of another owner', () => {
    jobs.observe(echo, { type: 'deleted', object: jobOf(echo, complete, { ownerReferences: [] }) });
    expect(jobs.get(echo, key)).toBe(job);
  });

  test('can be forgotten', () => {
    jobs.forget(key);
    expect(jobs.get(echo, key)).toBeUndefined();
  });
});
