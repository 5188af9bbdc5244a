import { controllerReference, findCondition, isControlledBy, type ObjectKey } from '@echoperator/runtime';
import { CronJob, CustomResourceDefinition, Job } from '@echoperator/runtime/kinds';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { definitionOf } from '../../src/commands/crds.ts';
import { Echo } from '../../src/kinds/echo/kind.ts';
import { ScheduledEcho } from '../../src/kinds/scheduled-echo/kind.ts';
import { kinds } from '../../src/operator.ts';
import { eventually } from '../../testkit/eventually.ts';
import { OperatorProcess } from '../../testkit/operator-process.ts';
import type { TestCluster } from '../../testkit/test-cluster.ts';
import { customManifest, withReason } from '../../testkit/with-reason.ts';
import { OwnServer } from './environment/own-server.ts';

/*
 * The CronJob controller takes a Job for a CronJob's if the Job's controller has the CronJob's *name*, whatever its
 * kind (k8s.io/kubernetes/pkg/controller/cronjob, getJobsToBeReconciled). Of these it keeps the last three that have
 * succeeded.
 */

let server: OwnServer;
let cluster: TestCluster;
let operator: OperatorProcess;

beforeAll(async () => {
  server = await OwnServer.start({ runsCronJobs: true });
  cluster = server.cluster;
  for (const kind of kinds) {
    const definition = definitionOf(kind, 'dev') as CustomResourceDefinition;
    await cluster.client.apply(CustomResourceDefinition, definition, { force: true });
  }
  operator = await OperatorProcess.start(cluster.kubeconfig);
});

afterAll(async () => {
  await operator?.stop();
  await server?.[Symbol.asyncDispose]();
});

const everyYear = { message: 'scheduled', schedule: '@yearly' };

const applyEcho = (key: ObjectKey, message = 'hello') =>
  cluster.client.apply(Echo, customManifest(key, { message }), { force: true });

/** @returns the CronJob */
async function scheduled(key: ObjectKey): Promise<CronJob> {
  await cluster.client.apply(ScheduledEcho, customManifest(key, everyYear), { force: true });
  const { status } = await withReason(cluster, ScheduledEcho, key, 'Scheduled');
  return cluster.client.get(CronJob, { ...key, name: status?.cronJobName ?? '' });
}

/** @returns the Echo's Job, which has completed */
async function printed(key: ObjectKey): Promise<Job> {
  await cluster.endPods(key);
  const { status } = await withReason(cluster, Echo, key, 'Printed');
  return cluster.client.get(Job, { ...key, name: status?.jobName ?? '' });
}

/** Runs more Jobs of the CronJob than its history keeps, until its controller has deleted the first. */
async function runBeyondHistory(cronJob: CronJob): Promise<void> {
  const { namespace = '' } = cronJob.metadata;
  const template = cronJob.spec?.jobTemplate.spec?.template;
  if (template === undefined) throw new Error('a CronJob has a template');
  const names = ['run-1', 'run-2', 'run-3', 'run-4'];
  for (const name of names) {
    const metadata = { name, namespace, ownerReferences: [controllerReference(CronJob, cronJob)] };
    await cluster.client.create(Job, { metadata, spec: { template } });
    await cluster.endPods({ name, namespace });
    await eventually(`${name} has completed`, async () => {
      const { items } = await cluster.client.list(Job, { namespace });
      const run = items.find(({ metadata }) => metadata.name === name);
      return run === undefined || run.status?.conditions?.some(({ type }) => type === 'Complete');
    });
  }
  await eventually('the CronJob controller has deleted the oldest run', async () => {
    const { items } = await cluster.client.list(Job, { namespace });
    return items.filter((job) => isControlledBy(job, cronJob)).length < names.length;
  });
}

test.each(['the Echo', 'the ScheduledEcho'])(
  'an Echo and a ScheduledEcho of one name do not meet: the Job outlives the history of the CronJob (first: %s)',
  async (first) => {
    const key = { name: 'hello', namespace: await cluster.namespace() };
    if (first === 'the Echo') await applyEcho(key);
    const cronJob = await scheduled(key);
    if (first !== 'the Echo') await applyEcho(key);
    const { uid } = (await printed(key)).metadata;
    await runBeyondHistory(cronJob);
    expect((await cluster.client.get(Job, key)).metadata.uid).toBe(uid);
  },
);

/** A CronJob with the name of its ScheduledEcho, as an earlier version of the operator and the original make it. */
async function createEarlierCronJob(key: ObjectKey): Promise<CronJob> {
  const owner = await cluster.client.apply(ScheduledEcho, customManifest(key, everyYear), { force: true });
  const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'echo', image: 'busybox:1.36' }] } };
  return cluster.client.create(CronJob, {
    metadata: { ...key, ownerReferences: [controllerReference(ScheduledEcho, owner)] },
    spec: { schedule: '@yearly', jobTemplate: { spec: { template } } },
  });
}

test('a CronJob of an earlier version keeps its name, and an Echo of that name waits until it is gone', async () => {
  const key = { name: 'adopted', namespace: await cluster.namespace() };
  await operator.stop();
  const { uid } = (await createEarlierCronJob(key)).metadata;
  operator = await OperatorProcess.start(cluster.kubeconfig);
  const cronJob = await scheduled(key);
  expect(cronJob.metadata).toMatchObject({ name: 'adopted', uid });
  expect((await cluster.client.list(CronJob, { namespace: key.namespace })).items).toHaveLength(1);

  await applyEcho(key);
  const waiting = await withReason(cluster, Echo, key, 'NameTaken');
  expect(findCondition(waiting.status?.conditions, 'Ready')?.message).toMatch(/^CronJob adopted .*delete/);
  expect((await cluster.client.list(Job, { namespace: key.namespace })).items).toEqual([]);

  await cluster.client.delete(CronJob, key);
  await withReason(cluster, Echo, key, 'Printing');
  const { uid: jobUid } = (await printed(key)).metadata;
  await runBeyondHistory(await scheduled(key));
  expect((await cluster.client.get(Job, key)).metadata.uid).toBe(jobUid);
});

test('an Echo with the name of a CronJob of somebody else waits until that is gone, also for its next message', async () => {
  const key = { name: 'foreign', namespace: await cluster.namespace() };
  const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'busybox:1.36' }] } };
  const create = () =>
    cluster.client.create(CronJob, {
      metadata: key,
      spec: { schedule: '@yearly', jobTemplate: { spec: { template } } },
    });
  await create();
  await applyEcho(key);
  await withReason(cluster, Echo, key, 'NameTaken');
  await cluster.client.delete(CronJob, key);
  await withReason(cluster, Echo, key, 'Printing');
  const { uid } = (await printed(key)).metadata;
  await create();
  await applyEcho(key, 'another');
  await withReason(cluster, Echo, key, 'NameTaken');
  // The log of the last message stays until the next one can be printed.
  expect((await cluster.client.get(Job, key)).metadata.uid).toBe(uid);
  await cluster.client.delete(CronJob, key);
  await withReason(cluster, Echo, key, 'Printing');
});

test('a ScheduledEcho creates no CronJob with the name of an Echo', async () => {
  const namespace = await cluster.namespace();
  const first = await scheduled({ name: 'wanted', namespace });
  await cluster.client.delete(ScheduledEcho, { name: 'wanted', namespace });
  await eventually('the CronJob is gone', () => cluster.isGone(() => cluster.client.get(CronJob, first.metadata)));
  const echo = { name: first.metadata.name, namespace };
  await applyEcho(echo);
  await withReason(cluster, Echo, echo, 'Printing');
  await cluster.client.apply(ScheduledEcho, customManifest({ name: 'wanted', namespace }, everyYear), { force: true });
  await withReason(cluster, ScheduledEcho, { name: 'wanted', namespace }, 'NameTaken');
  expect((await cluster.client.list(CronJob, { namespace })).items).toEqual([]);
  await cluster.client.delete(Echo, echo);
  // Otherwise it looks again after a minute.
  const body = { spec: { message: 'now' } };
  await cluster.client.patch(ScheduledEcho, { name: 'wanted', namespace }, { type: 'merge', body });
  await withReason(cluster, ScheduledEcho, { name: 'wanted', namespace }, 'Scheduled');
});
