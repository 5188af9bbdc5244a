import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { ScheduledEcho } from '../../../../src/api/index.ts';
import type { CronJob } from '../../../../src/controllers/built-in-kinds.ts';
import { ScheduledEchoReconciler } from '../../../../src/controllers/scheduled-echo/scheduled-echo-reconciler.ts';
import { Applier, type Result, Store } from '../../../../src/runtime/index.ts';
import { ReconcilerWorld, type Report } from '../../environment/reconciler-world.ts';
import type { Exchange, ScriptedServer } from '../../environment/scripted-server.ts';
import { cronJobFor, scheduledEchoOf } from './scheduled-echos.ts';

const key = { name: 'hello', namespace: 'default' };
const cronJobPath = '/apis/batch/v1/namespaces/default/cronjobs/hello';
const echoPath = '/apis/mmontes.io/v1alpha1/namespaces/default/scheduledechos/hello';

let world: ReconcilerWorld;
let server: ScriptedServer;
let echos: Store<ScheduledEcho>;
let cronJobs: Store<CronJob>;

beforeEach(async () => {
  world = await ReconcilerWorld.start();
  server = world.server;
  echos = new Store();
  cronJobs = new Store();
});
afterEach(async () => {
  await world.close();
});

/** Begins to reconcile over what the stores hold; a failure is its outcome. */
function reconcile(): Promise<Result | unknown> {
  const { events } = world;
  const applier = new Applier({ fieldManager: 'tester' });
  const reconciler = new ScheduledEchoReconciler({ echos, cronJobs, applier, events, image: 'busybox:1.36' });
  return world.reconcile(reconciler, key);
}

/** The status that is written next, which is accepted. */
const reported = (): Promise<Report> => world.reported(`${echoPath}/status`, scheduledEchoOf());
const noted = (): Promise<string> => world.noted();

const applied = (): Promise<Exchange> => server.next({ method: 'PATCH', path: cronJobPath });
const done = { type: 'done' };

describe('where there is no CronJob', () => {
  test('one is made, and told of', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    const outcome = reconcile();
    const request = await applied();
    expect(request.body).toMatchObject({ kind: 'CronJob', spec: { schedule: '@hourly' } });
    request.json(201, cronJobFor(echo));
    expect((await reported()).reason).toBe('Scheduled');
    expect(await noted()).toBe('Normal Scheduled');
    expect(await outcome).toEqual(done);
  });

  test('and a quota is full, that is told, and tried again', async () => {
    echos.set(scheduledEchoOf());
    const outcome = reconcile();
    (await applied()).refuse(403, 'Forbidden', { message: 'exceeded quota' });
    expect(await reported()).toMatchObject({ reason: 'CronJobRefused', message: 'exceeded quota' });
    expect(await noted()).toBe('Warning CronJobRefused');
    expect(await outcome).toMatchObject({ name: 'ApiError', code: 403 });
  });

  test('and the schedule is none, that is told, with what it means for the CronJob, and is not tried again', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    const outcome = reconcile();
    const causes = [{ reason: 'FieldValueInvalid', field: 'spec.schedule', message: 'no cron' }];
    (await applied()).refuse(422, 'Invalid', { message: 'CronJob is invalid', details: { causes } });
    const { reason, message, status } = await reported();
    expect(reason).toBe('InvalidSchedule');
    expect(message).toBe('spec.schedule: no cron; until the spec changes, the CronJob is left as it is');
    expect(await noted()).toBe('Warning InvalidSchedule');
    expect(await outcome).toEqual(done);

    // As after a restart: what is known is in the status.
    echos.set(scheduledEchoOf({ metadata: { resourceVersion: '7' }, status }));
    expect(await reconcile()).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });
});

describe('where there is a CronJob', () => {
  test('that is as it should be, nothing is sent but the status', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    const made = reconcile();
    const request = await applied();
    const stored = { ...cronJobFor(echo), ...(request.body as CronJob) };
    request.json(201, stored);
    const { status } = await reported();
    await noted();
    await made;
    echos.set(scheduledEchoOf({ metadata: { resourceVersion: '7' }, status }));
    cronJobs.set({ ...stored, metadata: { ...cronJobFor(echo).metadata, ...stored.metadata } });
    expect(await reconcile()).toEqual(done);
    await world.events.flush(30_000);
    expect(server.unclaimed).toBe(0);
  });

  test('that somebody has changed, it is put back, and an Event and the log tell what was otherwise', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    const changed = cronJobFor(echo);
    cronJobs.set({ ...changed, spec: { ...changed.spec, suspend: true } as NonNullable<CronJob['spec']> });
    const outcome = reconcile();
    const request = await applied();
    expect(request.body).toMatchObject({ metadata: { uid: 'uid-cronjob' }, spec: { suspend: false } });
    request.json(200, changed);
    const report = reported();
    expect(await noted()).toBe('Normal CronJobChanged');
    expect((await report).reason).toBe('Scheduled');
    await noted();
    expect(await outcome).toEqual(done);
    const line = world.log.lines.find(({ message }) => message === 'the CronJob was not as the spec asks: applied');
    expect(line).toMatchObject({ level: 'info', details: { difference: expect.any(String) } });
  });

  test('that is being deleted, it is waited for', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    cronJobs.set(cronJobFor(echo, { deletionTimestamp: '2026-01-01T00:00:00Z' }));
    const outcome = reconcile();
    expect((await reported()).reason).toBe('Replacing');
    expect(await noted()).toBe('Normal Replacing');
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('of an earlier ScheduledEcho of the name, which the garbage collector has yet to delete, it is waited for', async () => {
    echos.set(scheduledEchoOf());
    cronJobs.set(cronJobFor(scheduledEchoOf({ metadata: { uid: 'uid-before' } })));
    const outcome = reconcile();
    expect((await reported()).reason).toBe('Replacing');
    expect(await noted()).toBe('Normal Replacing');
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test.each([
    ['of nobody', []],
    [
      'of another ScheduledEcho',
      cronJobFor(scheduledEchoOf({ metadata: { name: 'other', uid: 'uid-other' } })).metadata.ownerReferences,
    ],
    [
      'of something else of the name',
      [{ apiVersion: 'v1', kind: 'ScheduledEcho', name: 'hello', uid: 'x', controller: true }],
    ],
  ])('%s, it is left alone, and somebody told', async (_, ownerReferences) => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    cronJobs.set(cronJobFor(echo, { ownerReferences: ownerReferences ?? [] }));
    const outcome = reconcile();
    expect((await reported()).reason).toBe('CronJobNameTaken');
    expect(await noted()).toBe('Warning CronJobNameTaken');
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });
});

describe('a ScheduledEcho', () => {
  test.each([{ message: 'Hola' }, { schedule: '@hourly' }, {}, undefined])(
    'that lacks what it needs, stored under an older definition, gets a reason and no CronJob: spec %j',
    async (spec) => {
      const { spec: _, ...bare } = scheduledEchoOf();
      echos.set({ ...bare, ...(spec && { spec }) } as ScheduledEcho);
      const outcome = reconcile();
      expect((await reported()).reason).toBe('InvalidSpec');
      expect(await noted()).toBe('Warning InvalidSpec');
      expect(await outcome).toEqual(done);
      expect(server.unclaimed).toBe(0);
    },
  );

  test('that is gone, or on its way out, is left alone', async () => {
    expect(await reconcile()).toEqual(done);
    echos.set(scheduledEchoOf({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }));
    expect(await reconcile()).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });
});
