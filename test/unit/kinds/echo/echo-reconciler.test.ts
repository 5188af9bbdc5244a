import type { Condition, Result } from '@echoperator/runtime';
import { isNamespaceTerminating, NoResponseError } from '@echoperator/runtime/client';
import { CronJob, Job, Pod } from '@echoperator/runtime/kinds';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Store } from '../../../../packages/runtime/src/cache/store.ts';
import { echoController } from '../../../../src/kinds/echo/controller.ts';
import { Echo } from '../../../../src/kinds/echo/kind.ts';
import { podSettings } from '../../../../testkit/pod-settings.ts';
import { BareWorld } from '../../environment/defined-world.ts';
import type { ReconcilerWorld, Report } from '../../environment/reconciler-world.ts';
import type { Exchange, ScriptedServer } from '../../environment/scripted-server.ts';
import { complete, completionTime, echoOf, failed, jobOf, startTime } from './echos.ts';

const key = { name: 'hello', namespace: 'default' };
const jobsPath = '/apis/batch/v1/namespaces/default/jobs';
const jobPath = `${jobsPath}/hello`;
const echoPath = '/apis/mmontes.io/v1alpha1/namespaces/default/echos/hello';
const statusPath = `${echoPath}/status`;
const eventsPath = '/apis/events.k8s.io/v1/namespaces/default/events';

let bare: BareWorld;
let world: ReconcilerWorld;
let server: ScriptedServer;
let echos: Store<Echo>;
let jobs: Store<Job>;
let pods: Store<Pod>;

beforeEach(async () => {
  bare = await BareWorld.start(echoController(podSettings));
  world = bare.world;
  server = world.server;
  echos = bare.store(Echo);
  jobs = bare.store(Job);
  pods = bare.store(Pod);
});
afterEach(() => bare.close());

/** Begins to reconcile over what the stores hold; a failure is its outcome. */
const reconcile = (): Promise<Result | unknown> => bare.reconcile(key);

/** The watch has delivered the deletion of a Job. */
const jobDeleted = (object: Job) => bare.keysOfChangedChild(Job, { type: 'deleted', object });

/** The status that is written next, which is accepted. */
const reported = (): Promise<Report> => world.reported(statusPath, echoOf());
const noted = (): Promise<string> => world.noted();

/** The API server is asked for the Echo itself, and has this one. */
async function asked(stored: Echo): Promise<void> {
  (await server.next({ method: 'GET', path: echoPath })).json(200, stored);
}

const created = (): Promise<Exchange> => server.next({ method: 'POST', path: jobsPath });
const done = { type: 'done' };

describe('without a Job', () => {
  test('creates one and reports its state', async () => {
    const echo = echoOf();
    echos.set(echo);
    const outcome = reconcile();
    const request = await created();
    expect(request.body).toMatchObject({ kind: 'Job', metadata: { name: 'hello' } });
    request.json(201, jobOf(echo));
    expect((await reported()).reason).toBe('Printing');
    expect(await noted()).toBe('Normal Printing');
    expect(await outcome).toEqual(done);
  });

  test.each([
    ['is its own', {}, 'Printing'],
    ['is of another owner', { ownerReferences: [] }, 'NameTaken'],
  ])('reports the Job that exists, if the store is behind and it %s', async (_, metadata, reason) => {
    const echo = echoOf();
    echos.set(echo);
    const outcome = reconcile();
    (await created()).refuse(409, 'AlreadyExists');
    (await server.next({ method: 'GET', path: jobPath })).json(200, jobOf(echo, {}, metadata));
    expect((await reported()).reason).toBe(reason);
    await noted();
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('after a lost answer, fails if there is no Job, and the next reconcile repeats the request', async () => {
    const echo = echoOf();
    echos.set(echo);
    const outcome = reconcile();
    const lost = await created();
    lost.cut();
    (await server.next({ method: 'GET', path: jobPath })).refuse(404, 'NotFound');
    expect(await outcome).toBeInstanceOf(NoResponseError);
    const repeated = reconcile();
    const request = await created();
    // The API server may still execute the first one.
    expect(request.body).toEqual(lost.body);
    request.json(201, jobOf(echo));
    expect((await reported()).reason).toBe('Printing');
    await noted();
    expect(await repeated).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('after a lost answer, deletes the Job of an earlier generation that it finds: the store is behind', async () => {
    const echo = echoOf({ metadata: { generation: 2 } });
    echos.set(echo);
    const outcome = reconcile();
    (await created()).cut();
    (await server.next({ method: 'GET', path: jobPath })).json(200, jobOf(echoOf(), complete));
    await asked(echo);
    (await server.next({ method: 'DELETE', path: jobPath })).refuse(404, 'NotFound');
    const { reason, status } = await reported();
    expect([reason, status.completedGeneration]).toEqual(['Replacing', undefined]);
    await noted();
    expect(await outcome).toEqual(done);
  });

  test.each([
    ['of an earlier generation', echoOf({ metadata: { generation: 0 } }), {}],
    ['that belongs to nobody', echoOf(), { ownerReferences: [] }],
    ['of an earlier Echo of that name', echoOf({ metadata: { uid: 'uid-former' } }), {}],
  ])('does not take the deletion of a Job %s for that of its own', async (_, owner, metadata) => {
    echos.set(echoOf());
    jobDeleted(jobOf(owner, complete, metadata));
    const outcome = reconcile();
    if (owner.metadata.generation === 0) await asked(echoOf());
    (await created()).json(201, jobOf(echoOf()));
    expect((await reported()).reason).toBe('Printing');
    await noted();
    expect(await outcome).toEqual(done);
  });

  test('reports a Job that finished before the status could record it, and creates none', async () => {
    const echo = echoOf();
    echos.set(echo);
    jobDeleted(jobOf(echo, complete));
    const outcome = reconcile();
    const { reason, status } = await reported();
    expect([reason, status.completedGeneration]).toEqual(['Printed', 1]);
    expect(await noted()).toBe('Normal Printed');
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('creates it again if it was deleted before it completed', async () => {
    const echo = echoOf();
    echos.set(echo);
    jobDeleted(jobOf(echo, { active: 1 }));
    const outcome = reconcile();
    await asked(echo);
    (await created()).json(201, jobOf(echo));
    expect((await reported()).reason).toBe('Printing');
    await noted();
    expect(await outcome).toEqual(done);
  });

  test.each([
    ['Printing', 'Printing'],
    ['JobFailed', 'JobFailed'],
  ])(
    'creates it again and records an Event if the status has the reason %s, also after a lost answer',
    async (_, reason) => {
      const ready = {
        type: 'Ready',
        status: 'False',
        reason,
        message: '',
        lastTransitionTime: '',
        observedGeneration: 1,
      };
      const echo = echoOf({ status: { conditions: [ready as Condition] } });
      echos.set(echo);
      const outcome = reconcile();
      await asked(echo);
      (await created()).cut();
      (await server.next({ method: 'GET', path: jobPath })).json(200, jobOf(echo));
      expect(await noted()).toBe('Normal JobRecreated');
      expect((await reported()).reason).toBe('Printing');
      if (reason !== 'Printing') expect(await noted()).toBe('Normal Printing');
      expect(await outcome).toEqual(done);
      await world.events.flush(30_000);
      expect(server.unclaimed).toBe(0);
    },
  );

  test('creates one for a new generation, without a JobRecreated Event', async () => {
    const ready = { type: 'Ready', status: 'False', reason: 'Printing', message: '', lastTransitionTime: '' } as const;
    const conditions = [{ ...ready, observedGeneration: 1 }];
    const echo = echoOf({ metadata: { generation: 2 }, status: { conditions } });
    echos.set(echo);
    const outcome = reconcile();
    await asked(echo);
    (await created()).json(201, jobOf(echo));
    expect((await reported()).reason).toBe('Printing');
    expect(await outcome).toEqual(done);
    await world.events.flush(30_000);
    expect(server.unclaimed).toBe(0);
  });

  test.each([
    ['of another spec by now', { generation: 2 }],
    ['another by now', { uid: 'uid-again' }],
    ['on its way out by now', { deletionTimestamp: '2026-01-01T00:00:00Z' }],
  ])('creates none for an Echo that is %s: the store is behind', async (_, metadata) => {
    const echo = echoOf();
    echos.set(echo);
    jobDeleted(jobOf(echo, { active: 1 }));
    const outcome = reconcile();
    await asked(echoOf({ metadata }));
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('creates none for an Echo that is gone: the store is behind', async () => {
    const echo = echoOf();
    echos.set(echo);
    jobDeleted(jobOf(echo, { active: 1 }));
    const outcome = reconcile();
    (await server.next({ method: 'GET', path: echoPath })).refuse(404, 'NotFound');
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('creates one if an earlier generation was printed', async () => {
    const echo = echoOf({ metadata: { generation: 2 }, status: { completedGeneration: 1 } });
    echos.set(echo);
    const outcome = reconcile();
    await asked(echo);
    (await created()).refuse(403, 'Forbidden');
    expect((await reported()).reason).toBe('Refused');
    await noted();
    await outcome;
  });
});

describe('a CronJob with the name of the Echo', () => {
  beforeEach(() => {
    bare.store(CronJob).set({ metadata: { ...echoOf().metadata, uid: 'uid-cronjob' } } as CronJob);
  });

  test.each([
    ['no Job', undefined],
    ['a Job of an earlier generation', echoOf({ metadata: { generation: 0 } })],
  ])('keeps an Echo with %s from creating one, which it would take', async (_, former) => {
    echos.set(echoOf());
    if (former !== undefined) jobs.set(jobOf(former, complete));
    const outcome = reconcile();
    const { reason, message, status } = await reported();
    expect(reason).toBe('NameTaken');
    expect(message).toContain('CronJob hello would take the Job of this Echo for its own');
    expect(status).toMatchObject({ phase: 'Pending', jobName: 'hello' });
    expect(await noted()).toBe('Warning NameTaken');
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test.each([
    ['Printing', {}],
    ['Printed', complete],
  ])('does not change what an Echo reports whose Job exists: %s', async (reason, jobStatus) => {
    echos.set(echoOf());
    jobs.set(jobOf(echoOf(), jobStatus));
    const outcome = reconcile();
    expect((await reported()).reason).toBe(reason);
    await noted();
    expect(await outcome).toEqual(done);
  });
});

describe('after the message was printed', () => {
  const printedEcho = async (): Promise<Echo> => {
    const echo = echoOf();
    echos.set(echo);
    jobs.set(jobOf(echo, complete));
    const outcome = reconcile();
    const { status } = await reported();
    await noted();
    await outcome;
    return echoOf({ status: status as NonNullable<Echo['status']> });
  };

  test.each([
    ['there is', []],
    ['is gone', undefined],
    ["is somebody else's by now", [{ ownerReferences: [] }]],
    ["has lost the operator's annotation", [{ annotations: {} }]],
  ] as const)('nothing is done and nothing reported, though the Job %s', async (_, edits) => {
    const echo = await printedEcho();
    echos.set(echoOf({ ...echo, metadata: { resourceVersion: '7' } }));
    jobs.replace(edits === undefined ? [] : [jobOf(echo, complete, edits[0])]);
    jobDeleted(jobOf(echo, complete));
    expect(await reconcile()).toEqual(done);
    await world.events.flush(30_000);
    expect(server.unclaimed).toBe(0);
  });

  test('corrects a different status', async () => {
    echos.set(echoOf({ status: { completedGeneration: 1, phase: 'Pending', jobName: 'another' } }));
    const outcome = reconcile();
    const { reason, status } = await reported();
    expect([reason, status.phase, status.jobName]).toEqual(['Printed', 'Succeeded', 'hello']);
    await noted();
    expect(await outcome).toEqual(done);
  });

  test('corrects the times as long as the Job exists', async () => {
    const { status } = await printedEcho();
    const { startTime: _, ...edited } = { ...status, completionTime: '2020-01-01T00:00:00Z' };
    echos.set(echoOf({ metadata: { resourceVersion: '7' }, status: edited }));
    const outcome = reconcile();
    expect((await reported()).status).toMatchObject({ startTime, completionTime });
    expect(await outcome).toEqual(done);
  });
});

describe('a refused Job', () => {
  test.each([400, 413])('is reported and retried for a policy with the code %d', async (code) => {
    echos.set(echoOf());
    const outcome = reconcile();
    (await created()).refuse(code, 'BadRequest', { message: 'admission webhook "policy" denied the request' });
    expect((await reported()).reason).toBe('Refused');
    expect(await noted()).toBe('Warning Refused');
    expect(await outcome).toMatchObject({ type: 'retry', error: { code } });
  });

  test('is reported and retried for a quota', async () => {
    echos.set(echoOf());
    const outcome = reconcile();
    (await created()).refuse(403, 'Forbidden', { message: 'exceeded quota' });
    const { reason, status } = await reported();
    expect(reason).toBe('Refused');
    expect(status).toMatchObject({
      phase: 'Pending',
      conditions: [{ status: 'False', message: expect.stringContaining('exceeded quota') }],
    });
    expect(await noted()).toBe('Warning Refused');
    expect(await outcome).toMatchObject({ type: 'retry', error: { code: 403 } });
  });

  test('is reported and retried for an invalid field, because another API server may accept it', async () => {
    echos.set(echoOf());
    const outcome = reconcile();
    const details = { causes: [{ reason: 'FieldValueInvalid', field: 'spec.template', message: 'no' }] };
    (await created()).refuse(422, 'Invalid', { message: 'spec.template: no', details });
    expect((await reported()).reason).toBe('Refused');
    expect(await noted()).toBe('Warning Refused');
    expect(await outcome).toMatchObject({ type: 'retry', error: { code: 422 } });
  });

  test('is reported and retried for a policy that names no field', async () => {
    echos.set(echoOf());
    const outcome = reconcile();
    (await created()).refuse(422, 'Invalid', { message: 'images must come from the mirror' });
    expect((await reported()).reason).toBe('Refused');
    expect(await noted()).toBe('Warning Refused');
    expect(await outcome).toMatchObject({ type: 'retry', error: { code: 422 } });
  });

  test('is not reported in a terminating namespace', async () => {
    echos.set(echoOf());
    const outcome = reconcile();
    (await created()).refuse(403, 'Forbidden', { details: { causes: [{ reason: 'NamespaceTerminating' }] } });
    expect(isNamespaceTerminating(await outcome)).toBe(true);
    expect(server.unclaimed).toBe(0);
  });

  test('is retried without a report if the API server fails', async () => {
    echos.set(echoOf());
    const outcome = reconcile();
    (await created()).refuse(500, 'InternalError');
    (await server.next({ method: 'GET', path: jobPath })).refuse(404, 'NotFound');
    expect(await outcome).toMatchObject({ name: 'ApiError', code: 500 });
    expect(server.unclaimed).toBe(0);
  });
});

describe('with a Job', () => {
  test.each([
    ['does not start', {}, 'Job hello has not completed: pod hello-x: Evicted'],
    ['has failed', failed, 'Job hello has failed: too often; pod hello-x: Evicted'],
  ])('reports that its pod %s', async (_, state, message) => {
    const echo = echoOf();
    echos.set(echo);
    jobs.set(jobOf(echo, state));
    const ownerReferences = [{ apiVersion: 'batch/v1', kind: 'Job', name: 'hello', uid: 'uid-job', controller: true }];
    const metadata = { ...echo.metadata, name: 'hello-x', uid: 'uid-pod', ownerReferences };
    pods.set({ metadata, status: { phase: 'Failed', reason: 'Evicted' } });
    const outcome = reconcile();
    expect((await reported()).message).toBe(message);
    await noted();
    expect(await outcome).toEqual(done);
  });

  test('that makes no pod, says why, and looks again later', async () => {
    const echo = echoOf();
    echos.set(echo);
    const startTime = new Date(Date.now() - 20_000).toISOString();
    jobs.set(jobOf(echo, { startTime }));
    const outcome = reconcile();
    const request = await server.next({ method: 'GET', path: eventsPath });
    expect(request.query.get('fieldSelector')).toBe('regarding.uid=uid-job,type=Warning');
    const refused = { metadata: { name: 'e', creationTimestamp: startTime }, reason: 'FailedCreate', note: 'no quota' };
    request.json(200, { metadata: { resourceVersion: '1' }, items: [refused] });
    expect((await reported()).message).toBe('Job hello has not completed: it has no pod: FailedCreate: no quota');
    await noted();
    expect(await outcome).toEqual({ type: 'requeueAfter', delayMs: expect.any(Number) });
  });

  test.each([
    ['that the job controller has not seen yet', {}],
    ['with an active pod, which the cache does not show yet', { active: 1, startTime: '2026-01-01T00:00:00Z' }],
    ['that is suspended', { startTime: '2026-01-01T00:00:00Z', conditions: [{ type: 'Suspended', status: 'True' }] }],
  ])('%s, lists no Events', async (_, status) => {
    const echo = echoOf();
    echos.set(echo);
    jobs.set(jobOf(echo, status));
    const outcome = reconcile();
    expect((await reported()).message).toBe('Job hello prints the message');
    await noted();
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('whose pod terminates, reconciles again when it is overdue: no event tells that', async () => {
    const echo = echoOf();
    echos.set(echo);
    jobs.set(jobOf(echo));
    const ownerReferences = [{ apiVersion: 'batch/v1', kind: 'Job', name: 'hello', uid: 'uid-job', controller: true }];
    const deletionTimestamp = new Date(Date.now() + 30_000).toISOString();
    pods.set({ metadata: { ...echo.metadata, name: 'hello-x', uid: 'uid-pod', ownerReferences, deletionTimestamp } });
    const outcome = reconcile();
    await reported();
    await noted();
    const { delayMs } = (await outcome) as Result & { readonly type: 'requeueAfter' };
    expect(delayMs).toBeGreaterThan(30_000);
    expect(delayMs).toBeLessThanOrEqual(90_001);
  });

  test('of an earlier generation, deletes it with its pods, by uid', async () => {
    jobs.set(jobOf(echoOf()));
    echos.set(echoOf({ metadata: { generation: 2 } }));
    const outcome = reconcile();
    await asked(echoOf({ metadata: { generation: 2 } }));
    const request = await server.next({ method: 'DELETE', path: jobPath });
    expect(request.body).toMatchObject({ propagationPolicy: 'Foreground', preconditions: { uid: 'uid-job' } });
    request.json(200, { kind: 'Job', ...jobOf(echoOf(), {}, { deletionTimestamp: '2026-01-01T00:00:00Z' }) });
    expect((await reported()).reason).toBe('Replacing');
    expect(await noted()).toBe('Normal Replacing');
    expect(await outcome).toEqual(done);
  });

  test('of an earlier generation that is gone, waits for the event', async () => {
    jobs.set(jobOf(echoOf()));
    echos.set(echoOf({ metadata: { generation: 2 } }));
    const outcome = reconcile();
    await asked(echoOf({ metadata: { generation: 2 } }));
    (await server.next({ method: 'DELETE', path: jobPath })).refuse(404, 'NotFound');
    expect((await reported()).reason).toBe('Replacing');
    await noted();
    expect(await outcome).toEqual(done);
  });

  test('of an earlier generation that was replaced, keeps the new one and waits for the event', async () => {
    jobs.set(jobOf(echoOf()));
    echos.set(echoOf({ metadata: { generation: 2 } }));
    const outcome = reconcile();
    await asked(echoOf({ metadata: { generation: 2 } }));
    (await server.next({ method: 'DELETE', path: jobPath })).refuse(409, 'Conflict');
    expect((await reported()).reason).toBe('Replacing');
    await noted();
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('of a later generation than the Echo in the store, changes nothing: the store is behind', async () => {
    jobs.set(jobOf(echoOf({ metadata: { generation: 2 } })));
    echos.set(echoOf());
    const outcome = reconcile();
    await asked(echoOf({ metadata: { generation: 2 } }));
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('of an earlier generation that is being deleted, waits for its deletion', async () => {
    jobs.set(jobOf(echoOf(), {}, { deletionTimestamp: '2026-01-01T00:00:00Z' }));
    echos.set(echoOf({ metadata: { generation: 2 } }));
    const outcome = reconcile();
    expect((await reported()).reason).toBe('Replacing');
    await noted();
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('of an earlier Echo of this name, waits for the garbage collector', async () => {
    jobs.set(jobOf(echoOf({ metadata: { uid: 'uid-before' } })));
    echos.set(echoOf());
    const outcome = reconcile();
    expect(await reported()).toMatchObject({ reason: 'Replacing', message: expect.stringContaining('earlier Echo') });
    expect(await noted()).toBe('Normal Replacing');
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test('of another owner, changes nothing and reports it', async () => {
    jobs.set(jobOf(echoOf(), {}, { ownerReferences: [] }));
    echos.set(echoOf());
    const outcome = reconcile();
    expect((await reported()).reason).toBe('NameTaken');
    expect(await noted()).toBe('Warning NameTaken');
    expect(await outcome).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });
});

describe('the report', () => {
  const ready = {
    type: 'Ready',
    status: 'False',
    reason: 'Printing',
    message: 'earlier',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  } as const;

  test('records an Event only if the reason changes', async () => {
    const echo = echoOf({ status: { conditions: [ready] } });
    echos.set(echo);
    jobs.set(jobOf(echo));
    const outcome = reconcile();
    expect((await reported()).reason).toBe('Printing');
    expect(await outcome).toEqual(done);
    await world.events.flush(30_000);
    expect(server.unclaimed).toBe(0);
  });

  test('has the resourceVersion that it was computed from', async () => {
    const echo = echoOf();
    echos.set(echo);
    jobs.set(jobOf(echo, complete));
    const outcome = reconcile();
    const request = await server.next({ method: 'PATCH' });
    expect(request.body).toMatchObject({ metadata: { resourceVersion: '5' } });
    request.refuse(409, 'Conflict');
    expect(await outcome).toMatchObject({ name: 'ApiError', code: 409 });
    expect(server.unclaimed).toBe(0);
  });

  test('fails with advice and is retried if the CRD has no status', async () => {
    const echo = echoOf();
    echos.set(echo);
    jobs.set(jobOf(echo));
    const outcome = reconcile();
    (await server.next({ method: 'PATCH' })).refuse(404, 'NotFound');
    await asked(echo);
    expect(await outcome).toMatchObject({ message: expect.stringContaining('CustomResourceDefinition') });
  });

  test('of an Echo that is gone is neither an error nor an Event', async () => {
    const echo = echoOf();
    echos.set(echo);
    jobs.set(jobOf(echo, complete));
    const outcome = reconcile();
    (await server.next({ method: 'PATCH' })).refuse(404, 'NotFound');
    (await server.next({ method: 'GET', path: echoPath })).refuse(404, 'NotFound');
    expect(await outcome).toEqual(done);
    await world.events.flush(30_000);
    expect(server.unclaimed).toBe(0);
  });
});

describe('an Echo', () => {
  test('that is being deleted gets no Job', async () => {
    echos.set(echoOf({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }));
    expect(await reconcile()).toEqual(done);
    expect(server.unclaimed).toBe(0);
  });

  test.each([{}, undefined])(
    'without a message, stored under an older definition, gets a reason and no Job: spec %j',
    async (spec) => {
      const { spec: _, ...bare } = echoOf();
      echos.set({ ...bare, ...(spec && { spec }) } as Echo);
      const outcome = reconcile();
      expect((await reported()).reason).toBe('InvalidSpec');
      expect(await noted()).toBe('Warning InvalidSpec');
      expect(await outcome).toEqual(done);
      expect(server.unclaimed).toBe(0);
    },
  );
});
