import { controllerReference } from '@echoperator/runtime';
import { CronJob, Event, Job, Pod } from '@echoperator/runtime/kinds';
import type { SimulationOptions } from '@echoperator/testing/simulation';
import { describe, expect, test } from '@jest/globals';
import { Echo } from '../../../../src/kinds/echo/kind.ts';
import { scheduledEchoController } from '../../../../src/kinds/scheduled-echo/controller.ts';
import { ScheduledEcho } from '../../../../src/kinds/scheduled-echo/kind.ts';
import { podSettings } from '../../../../testkit/pod-settings.ts';
import { someJob } from '../../../plans/scenario-steps.ts';
import { forbidden, KindWorld } from '../../environment/kind-world.ts';

type World = KindWorld<ScheduledEcho>;

const run = (body: (world: World) => Promise<unknown>, options: Partial<SimulationOptions> & { name?: string } = {}) =>
  KindWorld.run(scheduledEchoController(podSettings), ScheduledEcho, body, { kinds: [Echo], ...options });

const hourly = { message: 'Hola', schedule: '@hourly' };
const cronJobName = 'hello-2cf24dba5f';
const someCronJob = { schedule: '@yearly', jobTemplate: { spec: someJob } };

/** Seconds of the simulation's time, as RFC 3339. */
const now = (): string => new Date().toISOString().replace(/\.\d+/, '');

/** Plays the controller of CronJobs, which has started a Job, and returns the Job. */
async function startJob(world: World): Promise<Job> {
  const cronJob = world.first(CronJob);
  const metadata = { ...world.key, name: 'hello-1', ownerReferences: [controllerReference(CronJob, cronJob)] };
  const job = await world.create(Job, { metadata, spec: someJob });
  const active = [{ apiVersion: 'batch/v1', kind: 'Job', name: 'hello-1', uid: job.metadata.uid }];
  await world.setStatus(CronJob, cronJob, { active, lastScheduleTime: now() });
  return job;
}

async function createPod(world: World, job: Job, status: object): Promise<Pod> {
  const metadata = { ...world.key, name: `${job.metadata.name}-x`, ownerReferences: [controllerReference(Job, job)] };
  const pod = await world.create(Pod, { metadata, spec: someJob.template.spec });
  await world.setStatus(Pod, pod, status);
  await world.settle();
  return pod;
}

describe('a ScheduledEcho', () => {
  test('has a CronJob, which follows the spec in place', () =>
    run(async (world) => {
      await world.apply({ ...hourly, timeZone: 'Europe/Madrid' });
      const { metadata, spec } = world.first(CronJob);
      expect(world.owned(CronJob)).toHaveLength(1);
      expect(spec).toMatchObject({ schedule: '@hourly', suspend: false, concurrencyPolicy: 'Forbid' });
      expect(world.status).toMatchObject({ cronJobName: metadata.name });
      expect(world.message()).toBe(`CronJob ${cronJobName} prints the message at @hourly in Europe/Madrid`);
      expect(world.events).toEqual(['Normal CronJobCreated', 'Normal Scheduled']);
      await world.apply({ message: 'two', schedule: '@daily', suspend: true });
      expect([world.reason(), world.message()]).toEqual(['Suspended', `CronJob ${cronJobName} is suspended`]);
      const changed = world.first(CronJob);
      expect(changed.metadata.uid).toBe(metadata.uid);
      expect(changed.spec).toMatchObject({ schedule: '@daily', suspend: true });
      expect(changed.spec).not.toHaveProperty('timeZone');
      expect(changed.spec?.jobTemplate.spec?.template.spec?.containers[0]?.command?.at(-1)).toBe('two');
      expect(world.events).toContain('Normal CronJobChanged');
    }));

  test('restores its CronJob, and keeps what others have added', () =>
    run(async (world) => {
      await world.apply(hourly);
      const { metadata } = world.first(CronJob);
      const containers = '/spec/jobTemplate/spec/template/spec/containers';
      const body = [
        { op: 'add', path: `${containers}/-`, value: { name: 'sidecar', image: 'busybox:1.36' } },
        { op: 'replace', path: `${containers}/0/image`, value: 'another' },
        { op: 'add', path: '/metadata/labels/team', value: 'a' },
        { op: 'replace', path: '/spec/suspend', value: true },
        { op: 'replace', path: '/spec/failedJobsHistoryLimit', value: 7 },
      ] as const;
      await world.client.patch(CronJob, metadata, { type: 'json', body });
      await world.settle();
      const restored = world.first(CronJob);
      expect(restored).toMatchObject({
        metadata: { labels: { team: 'a' } },
        spec: { failedJobsHistoryLimit: 7, suspend: false },
      });
      expect(
        restored.spec?.jobTemplate.spec?.template.spec?.containers.map(({ name, image }) => `${name} ${image}`),
      ).toEqual(['echo busybox:1.36', 'sidecar busybox:1.36']);
      await world.client.delete(CronJob, metadata);
      await world.settle();
      expect(world.first(CronJob).metadata.uid).not.toBe(metadata.uid);
      expect(world.events).toContain('Normal CronJobRecreated');
    }));

  test('with a long name has a CronJob with a name short enough for its Jobs', () =>
    run(
      async (world) => {
        await world.apply(hourly);
        expect(world.status.cronJobName).toMatch(/^long-x{36}-[0-9a-f]{10}$/);
        expect(world.first(CronJob).metadata.name).toBe(world.status.cronJobName);
      },
      { name: `long-${'x'.repeat(70)}` },
    ));

  test('reports the runs of its CronJob: each Job once, and no name that the API server would refuse', () =>
    run(async (world) => {
      await world.apply(hourly);
      const many = Array.from({ length: 2000 }, (_, index) => ({ name: `job-${10_000 + index}` }));
      const active = [{ name: 'b' }, { name: 'a' }, { name: 'b' }, { name: ' '.repeat(1_000_000) }, ...many];
      const times = { lastScheduleTime: '2026-01-02T03:04:00Z', lastSuccessfulTime: '2026-01-02T03:03:05Z' };
      await world.setStatus(CronJob, world.first(CronJob), { active, ...times });
      await world.settle();
      expect(world.status).toMatchObject(times);
      expect(world.status.active).toEqual(['a', 'b', ...many.slice(0, 998).map(({ name }) => name)]);
    }));

  test('reports a full quota, and goes on when there is room', () =>
    run(async (world) => {
      world.refuse = ({ kind, verb }) =>
        kind === CronJob && verb === 'apply' ? forbidden('exceeded quota') : undefined;
      await world.apply(hourly);
      expect(world.reason()).toBe('Refused');
      expect(world.message()).toContain('exceeded quota');
      world.refuse = () => undefined;
      await world.advance(90);
      expect(world.reason()).toBe('Scheduled');
      expect(world.events).toEqual(['Warning Refused', 'Normal CronJobCreated', 'Normal Scheduled']);
    }));

  test('with an invalid schedule quotes the API server, retries, and keeps the last valid schedule', () =>
    run(async (world) => {
      const causes = [{ reason: 'FieldValueInvalid', field: 'spec.schedule', message: 'no cron' }];
      const status = { code: 422, reason: 'Invalid', message: 'CronJob is invalid', details: { causes } };
      world.refuse = ({ kind, verb }) => (kind === CronJob && verb === 'apply' ? status : undefined);
      await world.apply({ ...hourly, schedule: 'never' });
      expect([world.reason(), world.message()]).toEqual(['InvalidSchedule', 'spec.schedule: no cron']);
      // Another version of the API server may know the schedule.
      world.refuse = () => undefined;
      await world.advance(90);
      expect(world.reason()).toBe('Scheduled');
      world.refuse = ({ kind, verb }) => (kind === CronJob && verb === 'apply' ? status : undefined);
      await world.apply({ ...hourly, schedule: 'sometimes' });
      expect(world.message()).toBe('spec.schedule: no cron; the CronJob keeps its last valid schedule');
      expect(world.first(CronJob).spec?.schedule).toBe('never');
      expect(world.notes('InvalidSchedule')).toHaveLength(2);
    }));
});

describe('a Job of the CronJob', () => {
  test('that has no pod makes it not Ready, and the message quotes the Event that says why', () =>
    run(async (world) => {
      await world.apply(hourly);
      const job = await startJob(world);
      await world.create(Event, {
        metadata: { namespace: 'default', name: 'refused' },
        eventTime: `${now().slice(0, -1)}.000000Z`,
        ...{ type: 'Warning', reason: 'FailedCreate', note: 'no quota', action: 'Create' },
        ...{ reportingController: 'job-controller', reportingInstance: 'one' },
        regarding: {
          kind: 'Job',
          apiVersion: 'batch/v1',
          name: 'hello-1',
          namespace: 'default',
          uid: job.metadata.uid,
        },
      });
      await world.advance(20);
      expect([world.reason(), world.message()]).toEqual([
        'JobStuck',
        `CronJob ${cronJobName} starts no other Job: Job hello-1 has no pod: FailedCreate: no quota`,
      ]);
      expect(world.status.active).toEqual(['hello-1']);
      await createPod(world, job, { phase: 'Running' });
      expect(world.reason()).toBe('Scheduled');
    }));

  test('whose pod does not start is named', () =>
    run(async (world) => {
      await world.apply(hourly);
      await createPod(world, await startJob(world), { phase: 'Failed', reason: 'Evicted' });
      expect([world.reason(), world.message()]).toEqual([
        'Scheduled',
        `CronJob ${cronJobName} prints the message at @hourly; pod hello-1-x: Evicted`,
      ]);
    }));

  test('whose pod terminates for too long makes it not Ready, which no event tells', () =>
    run(async (world) => {
      await world.apply(hourly);
      const pod = await createPod(world, await startJob(world), { phase: 'Running' });
      await world.hold(Pod, pod);
      await world.client.delete(Pod, pod.metadata);
      await world.advance(100);
      expect(world.reason()).toBe('JobStuck');
      expect(world.message()).toContain('starts no other Job: pod hello-1-x: still terminating since');
      await world.hold(Pod, pod, []);
      await world.client.delete(Job, { ...world.key, name: 'hello-1' });
    }));

  test('whose pod a sidecar keeps running after it has printed makes it not Ready', () =>
    run(async (world) => {
      await world.apply(hourly);
      const container = { image: '', imageID: '', ready: true, restartCount: 0 };
      await createPod(world, await startJob(world), {
        phase: 'Running',
        containerStatuses: [
          { ...container, name: 'echo', state: { terminated: { exitCode: 0, finishedAt: now() } } },
          { ...container, name: 'proxy', state: { running: {} } },
        ],
      });
      expect(world.reason()).toBe('Scheduled');
      await world.advance(70);
      expect([world.reason(), world.message()]).toEqual([
        'JobStuck',
        `CronJob ${cronJobName} starts no other Job: pod hello-1-x: container echo has completed, but container proxy still runs, so the pod does not end`,
      ]);
    }));
});

describe('a name that is taken', () => {
  test('by a CronJob of somebody else is reported, and the CronJob is not changed until it is deleted', () =>
    run(async (world) => {
      const metadata = { ...world.key, name: cronJobName };
      await world.create(CronJob, { metadata, spec: someCronJob });
      await world.apply(hourly);
      expect(world.reason()).toBe('NameTaken');
      expect(world.first(CronJob).spec?.schedule).toBe('@yearly');
      expect(world.events).toEqual(['Warning NameTaken']);
      await world.client.delete(CronJob, metadata);
      await world.settle();
      expect([world.reason(), world.owned(CronJob).length]).toEqual(['Scheduled', 1]);
    }));

  test('by the CronJob of an earlier ScheduledEcho waits for the garbage collector, without a warning', () =>
    run(async (world) => {
      await world.apply(hourly);
      const cronJob = world.first(CronJob);
      await world.hold(CronJob, cronJob);
      await world.client.delete(ScheduledEcho, world.key);
      await world.apply(hourly);
      expect(world.reason()).toBe('Replacing');
      await world.hold(CronJob, cronJob, []);
      await world.settle();
      expect([world.reason(), world.owned(CronJob).length]).toEqual(['Scheduled', 1]);
      expect(world.events).not.toContain('Warning NameTaken');
    }));

  test('by a CronJob that an orphaning deletion left behind is reported', () =>
    run(async (world) => {
      await world.apply(hourly);
      await world.client.delete(ScheduledEcho, world.key, { propagationPolicy: 'Orphan' });
      await world.settle();
      await world.apply({ ...hourly, schedule: '@daily' });
      expect([world.reason(), world.first(CronJob).spec?.schedule]).toEqual(['NameTaken', '@hourly']);
    }));

  test('by an Echo, whose Job a new CronJob would take, keeps it from being created, not from being changed', () =>
    run(async (world) => {
      const { client, key } = world;
      const ofEcho = { ...key, name: cronJobName };
      await world.create(Echo, { metadata: ofEcho, spec: { message: 'Hola' } });
      await world.apply(hourly);
      expect(world.reason()).toBe('NameTaken');
      expect(world.message()).toContain(`a CronJob ${cronJobName} would take the Job of the Echo of that name`);
      expect(world.simulation.objects(CronJob)).toEqual([]);
      await client.delete(Echo, ofEcho);
      // The controller does not watch Echos.
      await world.advance(70);
      expect(world.reason()).toBe('Scheduled');
      await world.create(Echo, { metadata: ofEcho, spec: { message: 'Hola' } });
      await world.apply({ ...hourly, schedule: '@daily' });
      expect(world.first(CronJob).spec?.schedule).toBe('@daily');
    }));
});

test.each([403, 404])('a cluster that answers %d for Echos keeps nobody from a CronJob', (code) =>
  run(async (world) => {
    world.refuse = ({ kind }) => (kind.kind === Echo.kind ? { code, reason: 'None', message: 'no' } : undefined);
    await world.apply(hourly);
    expect(world.reason()).toBe('Scheduled');
  }),
);

test('a CronJob of its own name, as earlier versions made it, is kept, and another one that it controls is deleted', () =>
  run(async (world) => {
    await world.apply(hourly);
    const ownerReferences = [controllerReference(ScheduledEcho, world.object)];
    const earlier = await world.create(CronJob, { metadata: { ...world.key, ownerReferences }, spec: someCronJob });
    await world.settle();
    expect(world.simulation.objects(CronJob).map(({ metadata }) => metadata.uid)).toEqual([earlier.metadata.uid]);
    expect(world.first(CronJob).spec?.schedule).toBe('@hourly');
    expect(world.status.cronJobName).toBe('hello');
    // It is waited for while it is being deleted.
    await world.hold(CronJob, earlier);
    await world.client.delete(CronJob, earlier.metadata);
    await world.settle();
    expect([world.reason(), world.simulation.objects(CronJob).length]).toEqual(['Replacing', 1]);
    await world.hold(CronJob, earlier, []);
    await world.settle();
    expect([world.reason(), world.status.cronJobName]).toEqual(['Scheduled', cronJobName]);
  }));
