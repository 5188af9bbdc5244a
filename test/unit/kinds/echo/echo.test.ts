import { controllerReference } from '@echoperator/runtime';
import { CronJob, Event, Job, Pod } from '@echoperator/runtime/kinds';
import { jobController, type SimulationOptions } from '@echoperator/testing/simulation';
import { describe, expect, test } from '@jest/globals';
import { echoController } from '../../../../src/kinds/echo/controller.ts';
import { Echo } from '../../../../src/kinds/echo/kind.ts';
import { podSettings } from '../../../../testkit/pod-settings.ts';
import { someJob } from '../../../plans/scenario-steps.ts';
import { failing, forbidden, KindWorld } from '../../environment/kind-world.ts';

type World = KindWorld<Echo>;

/** Runs a test with a controller of Jobs, unless the test itself writes their statuses. */
const run = (body: (world: World) => Promise<unknown>, options: Partial<SimulationOptions> = {}) =>
  KindWorld.run(echoController(podSettings), Echo, body, { otherControllers: jobController, ...options });

const withoutJobController: Partial<SimulationOptions> = { otherControllers: () => [] };

/** Plays the kubelet of the only pod. */
async function endPod(world: World): Promise<void> {
  for (const pod of world.simulation.objects(Pod)) await world.setStatus(Pod, pod, { phase: 'Succeeded' });
  await world.settle();
}

const completed = {
  startTime: '2030-01-01T00:00:01Z',
  completionTime: '2030-01-01T00:00:02Z',
  succeeded: 1,
  conditions: [{ type: 'Complete', status: 'True' }],
};

const complete = (world: World) => world.setStatus(Job, world.first(Job), completed);

const isStatusWrite = ({
  kind,
  subresource,
}: {
  readonly kind: { readonly kind: string };
  readonly subresource?: string | undefined;
}) => kind.kind === Echo.kind && subresource === 'status';

const creations = ({ writes }: World): number => writes.filter((write) => write.startsWith('create Job')).length;

describe('an Echo', () => {
  test('has a Job, whose state it reports until the message is printed', () =>
    run(async (world) => {
      await world.apply({ message: 'Hola' });
      const [job] = world.owned(Job);
      expect(job?.metadata).toMatchObject({ name: 'hello', annotations: { 'mmontes.io/generation': '1' } });
      expect(job?.spec?.template.spec?.containers[0]?.command?.at(-1)).toBe('Hola');
      expect(world.status).toMatchObject({ phase: 'Running', jobName: 'hello' });
      expect(world.message()).toBe('Job hello prints the message');
      await endPod(world);
      const { startTime, completionTime } = world.first(Job).status ?? {};
      expect(world.status).toMatchObject({ phase: 'Succeeded', startTime, completionTime, completedGeneration: 1 });
      expect([world.reason(), world.message()]).toEqual(['Printed', 'Job hello has printed the message']);
      expect(world.events).toEqual(['Normal Printing', 'Normal Printed']);
    }));

  test('whose Job fails says why, and whose pod has a problem says that too', () =>
    run(async (world) => {
      await world.apply({ message: 'Hola' });
      const metadata = {
        namespace: 'default',
        name: 'hello-x',
        ownerReferences: [controllerReference(Job, world.first(Job))],
      };
      const pod = await world.create(Pod, { metadata, spec: someJob.template.spec });
      await world.setStatus(Pod, pod, { phase: 'Failed', reason: 'Evicted' });
      await world.settle();
      expect(world.message()).toBe('Job hello has not completed: pod hello-x: Evicted');
      const failed = { failed: 1, conditions: [{ type: 'Failed', status: 'True', message: 'too often' }] };
      await world.setStatus(Job, world.first(Job), failed);
      await world.settle();
      expect([world.reason(), world.status.phase]).toEqual(['JobFailed', 'Failed']);
      expect(world.message()).toBe('Job hello has failed: too often; pod hello-x: Evicted');
      expect(world.status.completedGeneration).toBeUndefined();
    }, withoutJobController));

  test('whose pod terminates for too long says so, which no event tells', () =>
    run(async (world) => {
      await world.apply({ message: 'Hola' });
      const pod = world.first(Pod);
      await world.hold(Pod, pod);
      await world.client.delete(Pod, pod.metadata);
      await world.settle();
      expect(world.message()).toBe('Job hello prints the message');
      await world.advance(100);
      expect(world.message()).toContain(`Job hello has not completed: pod ${pod.metadata.name}: still terminating`);
      await world.hold(Pod, pod, []);
    }));

  test('whose Job has no pod quotes the Event that says why', () =>
    run(async (world) => {
      await world.apply({ message: 'Hola' });
      // The job controller has not seen it yet.
      await world.advance(60);
      expect(world.message()).toBe('Job hello prints the message');
      const { metadata } = world.first(Job);
      const startTime = new Date().toISOString().replace(/\.\d+/, '');
      await world.create(Event, {
        metadata: { namespace: 'default', name: 'refused' },
        eventTime: `${startTime.slice(0, -1)}.000000Z`,
        type: 'Warning',
        reason: 'FailedCreate',
        note: 'no quota',
        action: 'Create',
        reportingController: 'job-controller',
        reportingInstance: 'one',
        regarding: { kind: 'Job', apiVersion: 'batch/v1', name: 'hello', namespace: 'default', uid: metadata.uid },
      });
      await world.setStatus(Job, world.first(Job), { startTime });
      await world.advance(20);
      expect(world.message()).toBe('Job hello has not completed: it has no pod: FailedCreate: no quota');
      await world.client.mergeStatus(Job, world.first(Job).metadata, {
        conditions: [{ type: 'Suspended', status: 'True' }],
      } as never);
      await world.settle();
      expect(world.message()).toBe('Job hello prints the message');
    }, withoutJobController));

  test('reports a full quota once, and goes on when there is room', () =>
    run(async (world) => {
      world.refuse = ({ kind, verb }) => (kind === Job && verb === 'create' ? forbidden('exceeded quota') : undefined);
      await world.apply({ message: 'Hola' });
      await world.advance(300);
      expect(world.reason()).toBe('Refused');
      expect(world.message()).toContain('exceeded quota');
      expect(world.status.phase).toBe('Pending');
      expect(creations(world)).toBeGreaterThan(3);
      expect(world.writes.filter((write) => write.endsWith('/status'))).toHaveLength(1);
      world.refuse = () => undefined;
      await world.advance(90);
      expect(world.reason()).toBe('Printing');
      expect(world.events).toEqual(['Warning Refused', 'Normal Printing']);
    }));
});

describe('a Job that is deleted', () => {
  test('before it has completed is created again, and an Event tells that', () =>
    run(async (world) => {
      await world.apply({ message: 'Hola' });
      await world.client.delete(Job, world.key, { propagationPolicy: 'Background' });
      await world.settle();
      expect(world.owned(Job)).toHaveLength(1);
      expect(world.events).toEqual(['Normal Printing', 'Normal JobRecreated']);
    }));

  test('when it has completed is not, although the status could not say so yet', () =>
    run(async (world) => {
      await world.apply({ message: 'Hola' });
      world.refuse = (request) => (isStatusWrite(request) ? failing : undefined);
      await complete(world);
      await world.settle();
      await world.client.delete(Job, world.key, { propagationPolicy: 'Background' });
      await world.settle();
      world.refuse = () => undefined;
      await world.advance(60);
      expect([world.reason(), world.status.completedGeneration]).toEqual(['Printed', 1]);
      expect(creations(world)).toBe(1);
    }, withoutJobController));

  test.each([
    ['of nobody', { ownerReferences: null }],
    ['of no generation', { annotations: null }],
  ])('when it has completed does not count if it is %s', (_, metadata) =>
    run(async (world) => {
      await world.apply({ message: 'Hola' });
      world.refuse = (request) => (isStatusWrite(request) ? failing : undefined);
      await world.client.patch(Job, world.key, { type: 'merge', body: { metadata } });
      await complete(world);
      await world.client.delete(Job, world.key, { propagationPolicy: 'Background' });
      await world.settle();
      world.refuse = () => undefined;
      await world.advance(60);
      expect(world.reason()).toBe('Printing');
      expect(creations(world)).toBe(2);
    }, withoutJobController),
  );
});

describe('a new message', () => {
  test('replaces the Job: the former one is gone, with its pods, before the new one is created', () =>
    run(async (world) => {
      await world.apply({ message: 'one' });
      const before = world.first(Job);
      await world.hold(Job, before);
      await world.apply({ message: 'two' });
      expect(world.reason()).toBe('Replacing');
      expect(world.simulation.objects(Job).map(({ metadata }) => metadata.uid)).toEqual([before.metadata.uid]);
      expect(world.simulation.objects(Pod)).toEqual([]);
      await world.hold(Job, before, []);
      await world.settle();
      const [after] = world.owned(Job);
      expect(after?.metadata.annotations?.['mmontes.io/generation']).toBe('2');
      expect(after?.spec?.template.spec?.containers[0]?.command?.at(-1)).toBe('two');
      await endPod(world);
      expect(world.status.completedGeneration).toBe(2);
      expect(world.events).not.toContain('Normal JobRecreated');
    }));

  test('keeps the Job while the API server cannot say whether the cached Echo is current', () =>
    run(async (world) => {
      await world.apply({ message: 'Hola' });
      world.refuse = ({ verb, kind }) => (verb === 'get' && kind === Echo ? failing : undefined);
      await world.apply({ message: 'Adiós' });
      expect(world.writes).not.toContain('delete Job hello');
      world.refuse = () => undefined;
      await world.advance(60);
      expect(world.writes).toContain('delete Job hello');
    }));

  test('is printed although an earlier one was', () =>
    run(async (world) => {
      await world.apply({ message: 'one' });
      await endPod(world);
      await world.client.delete(Job, world.key, { propagationPolicy: 'Background' });
      await world.apply({ message: 'two' });
      expect([world.reason(), world.owned(Job).length]).toEqual(['Printing', 1]);
      expect(world.status).toMatchObject({ phase: 'Running', completedGeneration: 1 });
      expect(world.status).not.toHaveProperty('completionTime');
    }));
});

test('a completedGeneration of the future, as of a restored backup, does not count', () =>
  run(async (world) => {
    await world.apply({ message: 'Hola' });
    await endPod(world);
    await world.client.delete(Job, world.key, { propagationPolicy: 'Background' });
    await world.settle();
    await world.setStatus(Echo, world.object, { completedGeneration: 5 });
    await world.settle();
    expect([world.reason(), world.status.completedGeneration]).toEqual(['Printing', undefined]);
  }));

describe('after the message was printed', () => {
  const printed = (body: (world: World) => Promise<unknown>) =>
    run(async (world) => {
      await world.apply({ message: 'Hola' });
      await endPod(world);
      const { status } = world;
      world.writes.length = 0;
      await body(world);
      await world.settle();
      expect(world.status).toEqual(status);
      expect(creations(world)).toBe(0);
    });

  test('nothing is done if the Job is deleted, and another Job gets its name', () =>
    printed(async (world) => {
      await world.client.delete(Job, world.key, { propagationPolicy: 'Background' });
      await world.settle();
      await world.create(Job, { metadata: world.key, spec: someJob });
      await world.settle();
      expect(world.writes).toEqual([]);
    }));

  test('nothing is done if the Job loses its owner or its annotation', () =>
    printed(async (world) => {
      for (const metadata of [{ annotations: null }, { ownerReferences: null }]) {
        await world.client.patch(Job, world.key, { type: 'merge', body: { metadata } });
        await world.settle();
      }
      expect(world.writes).toEqual([]);
    }));

  test('a status that somebody edits is corrected', () =>
    printed(async (world) => {
      const times = { startTime: null, completionTime: '2020-01-01T00:00:00Z' };
      const edited = { phase: 'Pending', jobName: 'another', completedGeneration: 5, ...times };
      await world.setStatus(Echo, world.object, edited);
    }));
});

describe('a name that is taken', () => {
  test('by a Job of another owner is reported, and the Job is not changed until it is deleted', () =>
    run(async (world) => {
      const before = await world.client.create(Job, {
        metadata: world.key,
        spec: { ...someJob, suspend: true } as never,
      });
      await world.apply({ message: 'Hola' });
      expect([world.reason(), world.status.phase]).toEqual(['NameTaken', 'Pending']);
      expect(world.first(Job)).toMatchObject({ metadata: { resourceVersion: before.metadata.resourceVersion } });
      expect(world.events).toEqual(['Warning NameTaken']);
      await world.client.delete(Job, world.key, { propagationPolicy: 'Background' });
      await world.settle();
      expect([world.reason(), world.owned(Job).length]).toEqual(['Printing', 1]);
    }));

  test('by the Job of an earlier Echo of the name waits for the garbage collector, without a warning', () =>
    run(async (world) => {
      await world.apply({ message: 'one' });
      const job = world.first(Job);
      await world.hold(Job, job);
      await world.client.delete(Echo, world.key);
      await world.apply({ message: 'two' });
      expect(world.reason()).toBe('Replacing');
      await world.hold(Job, job, []);
      await world.settle();
      expect([world.reason(), world.owned(Job).length]).toEqual(['Printing', 1]);
      expect(world.events).not.toContain('Warning NameTaken');
    }));

  const cronJob = { spec: { schedule: '@yearly', jobTemplate: { spec: someJob } } };

  test('by a CronJob, which would take the Job, keeps an Echo from creating one', () =>
    run(async (world) => {
      const { key, client } = world;
      await world.create(CronJob, { metadata: key, ...cronJob });
      await world.settle();
      await world.apply({ message: 'Hola' });
      expect(world.message()).toContain('CronJob hello would take the Job of this Echo for its own');
      expect(world.events).toEqual(['Warning NameTaken']);
      expect(creations(world)).toBe(0);
      await client.delete(CronJob, key);
      await world.settle();
      expect(world.reason()).toBe('Printing');
      // Not once it has its Job.
      await world.create(CronJob, { metadata: key, ...cronJob });
      await world.settle();
      expect(world.reason()).toBe('Printing');
      await endPod(world);
      expect(world.reason()).toBe('Printed');
      // The CronJob keeps the Job of an earlier message from being replaced.
      await world.apply({ message: 'another' });
      expect([world.reason(), world.owned(Job).length]).toEqual(['NameTaken', 1]);
    }));
});
