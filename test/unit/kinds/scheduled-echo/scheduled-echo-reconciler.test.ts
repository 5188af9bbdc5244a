import type { Condition, Result } from '@echoperator/runtime';
import { CronJob, Pod } from '@echoperator/runtime/kinds';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Store } from '../../../../packages/runtime/src/cache/store.ts';
import type { Echo } from '../../../../src/kinds/echo/kind.ts';
import { scheduledEchoController } from '../../../../src/kinds/scheduled-echo/controller.ts';
import { newCronJobName } from '../../../../src/kinds/scheduled-echo/cron-job.ts';
import { ScheduledEcho } from '../../../../src/kinds/scheduled-echo/kind.ts';
import { podSettings } from '../../../../testkit/pod-settings.ts';
import { BareWorld } from '../../environment/defined-world.ts';
import type { ReconcilerWorld, Report } from '../../environment/reconciler-world.ts';
import type { Exchange, ScriptedServer } from '../../environment/scripted-server.ts';
import { cronJobFor, scheduledEchoOf } from './scheduled-echos.ts';

const key = { name: 'hello', namespace: 'default' };
const cronJobName = newCronJobName(scheduledEchoOf());
const cronJobPath = `/apis/batch/v1/namespaces/default/cronjobs/${cronJobName}`;
const echoOfNamePath = `/apis/mmontes.io/v1alpha1/namespaces/default/echos/${cronJobName}`;
const echoPath = '/apis/mmontes.io/v1alpha1/namespaces/default/scheduledechos/hello';

let bare: BareWorld;
let world: ReconcilerWorld;
let server: ScriptedServer;
let echos: Store<ScheduledEcho>;
let cronJobs: Store<CronJob>;
let pods: Store<Pod>;

beforeEach(async () => {
  bare = await BareWorld.start(scheduledEchoController(podSettings));
  world = bare.world;
  server = world.server;
  echos = bare.store(ScheduledEcho);
  cronJobs = bare.store(CronJob);
  pods = bare.store(Pod);
});
afterEach(() => bare.close());

/** Begins to reconcile over what the stores hold; a failure is its outcome. */
const reconcile = (): Promise<Result | unknown> => bare.reconcile(key);

/** The status that is written next, which is accepted. */
const reported = (): Promise<Report> => world.reported(`${echoPath}/status`, scheduledEchoOf());
const noted = (): Promise<string> => world.noted();

const applied = (): Promise<Exchange> => server.next({ method: 'PATCH', path: cronJobPath });

/** No Echo has the name of the CronJob that is created. */
async function created(): Promise<Exchange> {
  (await server.next({ method: 'GET', path: echoOfNamePath })).refuse(404, 'NotFound');
  return applied();
}

/** The request for the ScheduledEcho itself. */
const asked = (): Promise<Exchange> => server.next({ method: 'GET', path: echoPath });

const readyCondition: Condition = {
  type: 'Ready',
  status: 'True',
  reason: 'Scheduled',
  message: '',
  lastTransitionTime: '',
  observedGeneration: 1,
};

const done = { type: 'done' };

describe('a ScheduledEcho without a CronJob', () => {
  test('creates a CronJob and reports it', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    const outcome = reconcile();
    const request = await created();
    expect(request.body).toMatchObject({ kind: 'CronJob', spec: { schedule: '@hourly' } });
    request.json(201, cronJobFor(echo));
    expect(await noted()).toBe('Normal CronJobCreated');
    expect((await reported()).reason).toBe('Scheduled');
    expect(await noted()).toBe('Normal Scheduled');
    expect(await outcome).toEqual(done);
  });

  test('reports a full quota and retries', async () => {
    echos.set(scheduledEchoOf());
    const outcome = reconcile();
    (await created()).refuse(403, 'Forbidden', { message: 'exceeded quota' });
    expect(await reported()).toMatchObject({
      reason: 'Refused',
      message: expect.stringContaining('exceeded quota'),
    });
    expect(await noted()).toBe('Warning Refused');
    expect(await outcome).toMatchObject({ type: 'retry', error: { code: 403 } });
  });

  test('reports an invalid schedule and retries', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    const outcome = reconcile();
    const causes = [{ reason: 'FieldValueInvalid', field: 'spec.schedule', message: 'no cron' }];
    (await created()).refuse(422, 'Invalid', { message: 'CronJob is invalid', details: { causes } });
    const { reason, message, status } = await reported();
    expect(reason).toBe('InvalidSchedule');
    expect(message).toBe('spec.schedule: no cron');
    expect(await noted()).toBe('Warning InvalidSchedule');
    expect(await outcome).toMatchObject({ type: 'retry', error: { code: 422 } });

    // Another version of the API server may know the schedule, whatever the status says of this generation.
    echos.set(scheduledEchoOf({ metadata: { resourceVersion: '7' }, status }));
    const again = reconcile();
    (await server.next({ method: 'GET', path: echoOfNamePath })).refuse(404, 'NotFound');
    (await asked()).json(200, echo);
    (await applied()).json(201, cronJobFor(echo));
    expect(await noted()).toBe('Normal CronJobCreated');
    expect((await reported()).reason).toBe('Scheduled');
    expect(await noted()).toBe('Normal Scheduled');
    expect(await again).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test.each(['Scheduled', 'Suspended'])(
    'any more, though the status says %s, an Event tells that it is made again',
    async (reason) => {
      const echo = scheduledEchoOf({ status: { conditions: [{ ...readyCondition, reason }] } });
      echos.set(echo);
      const outcome = reconcile();
      (await server.next({ method: 'GET', path: echoOfNamePath })).refuse(404, 'NotFound');
      (await asked()).json(200, echo);
      (await applied()).json(201, cronJobFor(echo));
      const report = reported();
      expect(await noted()).toBe('Normal CronJobRecreated');
      expect((await report).reason).toBe('Scheduled');
      if (reason !== 'Scheduled') expect(await noted()).toBe('Normal Scheduled');
      expect(await outcome).toEqual(done);
      await world.events.flush(30_000);
      expect(server.unclaimed).toBe(0);
    },
  );
});

test('a ScheduledEcho that is gone, but not yet from the store, gets no CronJob again', async () => {
  const status = { conditions: [{ ...readyCondition, reason: 'Scheduled' }] };
  echos.set(scheduledEchoOf({ status }));
  const outcome = reconcile();
  (await server.next({ method: 'GET', path: echoOfNamePath })).refuse(404, 'NotFound');
  (await asked()).refuse(404, 'NotFound');
  expect(await outcome).toEqual(done);
  await world.events.flush(30_000);
  expect(server.unclaimed).toBe(0);
});

describe('a ScheduledEcho with a CronJob', () => {
  test('that matches the spec sends only the status', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    const made = reconcile();
    const request = await created();
    const stored = { ...cronJobFor(echo), ...(request.body as CronJob) };
    request.json(201, stored);
    const { status } = await reported();
    expect([await noted(), await noted()]).toEqual(['Normal CronJobCreated', 'Normal Scheduled']);
    await made;
    echos.set(scheduledEchoOf({ metadata: { resourceVersion: '7' }, status }));
    cronJobs.set({ ...stored, metadata: { ...cronJobFor(echo).metadata, ...stored.metadata } });
    expect(await reconcile()).toEqual(done);
    await world.events.flush(30_000);
    expect(server.unclaimed).toBe(0);
  });

  test('reports an invalid schedule, and what it means for the CronJob', async () => {
    const echo = scheduledEchoOf();
    echos.set(scheduledEchoOf({ spec: { schedule: 'never' } }));
    cronJobs.set(cronJobFor(echo));
    const outcome = reconcile();
    const causes = [{ reason: 'FieldValueInvalid', field: 'spec.schedule', message: 'no cron' }];
    (await applied()).refuse(422, 'Invalid', { message: 'CronJob is invalid', details: { causes } });
    expect(await reported()).toMatchObject({
      reason: 'InvalidSchedule',
      message: 'spec.schedule: no cron; the CronJob keeps its last valid schedule',
    });
    expect(await noted()).toBe('Warning InvalidSchedule');
    expect(await outcome).toMatchObject({ type: 'retry', error: { code: 422 } });
  });

  test('that somebody has changed restores it; an Event and the log name the difference', async () => {
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
    expect(world.log.messages('info')).toContainEqual(
      expect.stringMatching(new RegExp(`^applied CronJob ${cronJobName}, which differed from the spec in \\.`)),
    );
  });

  test('names each Job of a CronJob once, and none whose name the API server would refuse', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    const many = Array.from({ length: 2000 }, (_, index) => ({ name: `job-${10_000 + index}` }));
    const active = [{ name: 'b' }, { name: 'a' }, { name: 'b' }, { name: ' '.repeat(1_000_000) }, ...many];
    const outcome = reconcile();
    (await created()).json(201, { ...cronJobFor(echo), status: { active } });
    const { status } = await reported();
    expect(status.active).toEqual(['a', 'b', ...many.slice(0, 998).map(({ name }) => name)]);
    await noted();
    await noted();
    expect(await outcome).toEqual(done);
  });

  test('reports a pod that does not start, and its Job', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    const active = [{ name: 'hello-1', uid: 'uid-job' }];
    const ownerReferences = [
      { apiVersion: 'batch/v1', kind: 'Job', name: 'hello-1', uid: 'uid-job', controller: true },
    ];
    const pod = { ...echo.metadata, name: 'hello-1-x', uid: 'uid-pod', ownerReferences };
    const deletionTimestamp = new Date(Date.now() + 30_000).toISOString();
    pods.set({ metadata: { ...pod, name: 'hello-1-y', uid: 'uid-terminating', deletionTimestamp } });
    pods.set({ metadata: pod, status: { phase: 'Failed', reason: 'Evicted' } });
    const outcome = reconcile();
    (await created()).json(201, { ...cronJobFor(echo), status: { active } });
    expect(await reported()).toMatchObject({
      reason: 'Scheduled',
      message: `CronJob ${cronJobName} prints the message at @hourly; pod hello-1-x: Evicted`,
      status: { active: ['hello-1'] },
    });
    await noted();
    // No event tells that the other pod is overdue.
    expect(await outcome).toEqual({ type: 'requeueAfter', delayMs: expect.any(Number) });
  });

  test('is not Ready while the pod of its last Job cannot be created', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    const lastScheduleTime = new Date(Date.now() - 20_000).toISOString();
    const status = { active: [{ name: 'hello-1', uid: 'uid-job' }], lastScheduleTime };
    const outcome = reconcile();
    (await created()).json(201, { ...cronJobFor(echo), status });
    const path = '/apis/events.k8s.io/v1/namespaces/default/events';
    const refused = { metadata: { name: 'e' }, reason: 'FailedCreate', note: 'no quota' };
    (await server.next({ method: 'GET', path })).json(200, { metadata: { resourceVersion: '1' }, items: [refused] });
    const { reason, message, status: written } = await reported();
    expect([reason, message]).toEqual([
      'JobStuck',
      'CronJob hello-2cf24dba5f starts no other Job: Job hello-1 has no pod: FailedCreate: no quota',
    ]);
    expect(written).toMatchObject({ conditions: [{ type: 'Ready', status: 'False' }] });
    expect([await noted(), await noted()]).toEqual(['Normal CronJobCreated', 'Warning JobStuck']);
    expect(await outcome).toEqual({ type: 'requeueAfter', delayMs: expect.any(Number) });
  });

  test('is not Ready while a sidecar keeps the pod running that has printed', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    const ownerReferences = [
      { apiVersion: 'batch/v1', kind: 'Job', name: 'hello-1', uid: 'uid-job', controller: true },
    ];
    const container = { image: '', imageID: '', ready: true, restartCount: 0 };
    pods.set({
      metadata: { ...echo.metadata, name: 'hello-1-x', uid: 'uid-pod', ownerReferences },
      spec: { containers: [], restartPolicy: 'Never' },
      status: {
        phase: 'Running',
        containerStatuses: [
          { ...container, name: 'echo', state: { terminated: { exitCode: 0, finishedAt: '2026-01-01T00:00:00Z' } } },
          { ...container, name: 'proxy', state: { running: {} } },
        ],
      },
    });
    const outcome = reconcile();
    (await created()).json(201, { ...cronJobFor(echo), status: { active: [{ name: 'hello-1', uid: 'uid-job' }] } });
    expect(await reported()).toMatchObject({
      reason: 'JobStuck',
      message:
        'CronJob hello-2cf24dba5f starts no other Job: pod hello-1-x: container echo has completed, but container proxy still runs, so the pod does not end',
    });
    await noted();
    await noted();
    expect(await outcome).toEqual(done);
  });

  test('that is being deleted waits for the deletion', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    cronJobs.set(cronJobFor(echo, { deletionTimestamp: '2026-01-01T00:00:00Z' }));
    const outcome = reconcile();
    expect((await reported()).reason).toBe('Replacing');
    expect(await noted()).toBe('Normal Replacing');
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('of an earlier ScheduledEcho of this name waits for the garbage collector', async () => {
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
    expect((await reported()).reason).toBe('NameTaken');
    expect(await noted()).toBe('Warning NameTaken');
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });
});

describe('a ScheduledEcho with a CronJob of its own name, as earlier versions made it,', () => {
  const earlier = { name: 'hello', uid: 'uid-earlier' };
  const earlierPath = '/apis/batch/v1/namespaces/default/cronjobs/hello';

  test('applies that, and deletes another that it controls', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    const kept = cronJobFor(echo, earlier);
    cronJobs.set({ ...kept, spec: { ...kept.spec, suspend: true } as NonNullable<CronJob['spec']> });
    cronJobs.set(cronJobFor(echo));
    const outcome = reconcile();
    const request = await server.next({ method: 'PATCH', path: earlierPath });
    expect(request.body).toMatchObject({ metadata: { uid: 'uid-earlier' }, spec: { suspend: false } });
    request.json(200, kept);
    expect(await noted()).toBe('Normal CronJobChanged');
    (await asked()).json(200, echo);
    const deletion = await server.next({ method: 'DELETE', path: cronJobPath });
    expect(deletion.body).toMatchObject({ preconditions: { uid: 'uid-cronjob' } });
    deletion.json(200, {});
    const report = reported();
    expect(await report).toMatchObject({ reason: 'Scheduled', status: { cronJobName: 'hello' } });
    expect(await noted()).toBe('Normal Scheduled');
    expect(await outcome).toEqual(done);
  });

  test('waits until that is gone if it is being deleted', async () => {
    const echo = scheduledEchoOf();
    echos.set(echo);
    cronJobs.set(cronJobFor(echo, { ...earlier, deletionTimestamp: '2026-01-01T00:00:00Z' }));
    const outcome = reconcile();
    expect((await reported()).reason).toBe('Replacing');
    await noted();
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });
});

describe('an Echo with the name of the CronJob', () => {
  const echoOfName: Echo = {
    ...scheduledEchoOf(),
    metadata: { ...scheduledEchoOf().metadata, name: cronJobName, uid: 'uid-echo' },
    spec: { message: 'Hola' },
  };

  test('keeps a ScheduledEcho from creating it, which would take the Job', async () => {
    echos.set(scheduledEchoOf());
    const outcome = reconcile();
    (await server.next({ method: 'GET', path: echoOfNamePath })).json(200, echoOfName);
    const { reason, message } = await reported();
    expect(reason).toBe('NameTaken');
    expect(message).toContain(`a CronJob ${cronJobName} would take the Job of the Echo of that name`);
    expect(await noted()).toBe('Warning NameTaken');
    expect(await outcome).toEqual({ type: 'requeueAfter', delayMs: 60_000 });
    expect(server.unclaimed).toBe(0);
  });

  test('does not keep a ScheduledEcho from changing it: the Echo waits', async () => {
    const echo = scheduledEchoOf({ spec: { schedule: '@daily' } });
    echos.set(echo);
    cronJobs.set(cronJobFor(scheduledEchoOf()));
    const outcome = reconcile();
    (await applied()).json(200, cronJobFor(echo));
    expect(await noted()).toBe('Normal CronJobChanged');
    expect((await reported()).reason).toBe('Scheduled');
    expect(await noted()).toBe('Normal Scheduled');
    expect(await outcome).toEqual(done);
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

  test('that is gone or being deleted is not changed', async () => {
    expect(await reconcile()).toEqual(done);
    echos.set(scheduledEchoOf({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }));
    expect(await reconcile()).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });
});
