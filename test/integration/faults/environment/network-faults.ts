import type { ReflectorOptions } from '@echoperator/runtime/cache';
import { kubeconfigConnection } from '@echoperator/runtime/client';
import { ConfigMap } from '@echoperator/runtime/kinds';
import {
  type Fault,
  FaultProxy,
  type FaultTarget,
  isList,
  isStreamedList,
  isWatch,
  type RequestFilter,
} from '@echoperator/testing';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from '@jest/globals';
import { eventually } from '../../../../testkit/eventually.ts';
import { TestCluster } from '../../../../testkit/test-cluster.ts';
import { SubjectProcess } from './subject-process.ts';
import { World } from './world.ts';

/** Shared by the tests of network faults: a cluster, a world, and a subject behind a proxy for each block. */

export let cluster: TestCluster;
export let world: World;
export let proxy: FaultProxy;
let subject: SubjectProcess;

/** More than 250, so that a list has a second page. */
const ballast = 260;

export async function setUp(): Promise<void> {
  cluster = await TestCluster.connect();
  world = new World(cluster.client, await cluster.namespace());
  await world.populate();
  await cluster.createMany(ConfigMap, world.namespace, ballast);
}

export const tearDown = () => cluster.close();

/** Gives a block of tests its own subject and proxy. */
export function withSubject(watching: ReflectorOptions = {}) {
  let heapBefore: number;

  beforeAll(async () => {
    proxy = await FaultProxy.start({ upstream: await kubeconfigConnection(cluster.kubeconfig) });
    subject = await startSubject(watching);
    // The first run of code allocates memory permanently.
    await survive({ fault: expired, on: isWatch, times: 2 });
  });

  afterAll(async () => {
    await subject.stop();
    await proxy.close();
  });

  beforeEach(async () => {
    await world.converge(subject);
    heapBefore = await subject.ask('heap');
  });

  afterEach(async () => {
    await world.converge(subject);
    await world.heapIsAsBefore(subject, heapBefore);
  });
}

export function startSubject(watching: ReflectorOptions): Promise<SubjectProcess> {
  const { server, tls } = proxy.connection;
  return SubjectProcess.start({ server: server.href, tls, namespace: world.namespace, watching });
}

/**
 * Changes Echos until the fault has happened `times` times, ends it, and changes more. `afterEach` verifies the result.
 */
export async function survive({
  fault,
  strikes = 1,
  ...target
}: { readonly fault: Fault; readonly strikes?: number } & FaultTarget) {
  const injected = proxy.inject(fault, target);
  try {
    await eventually(`${fault.type} has happened`, async () => {
      await world.change();
      return injected.count >= strikes;
    });
  } finally {
    injected.off();
  }
  expect(injected.count).toBeGreaterThanOrEqual(strikes);
  await world.change();
}

export const isSecondPage: RequestFilter = (request) => isList(request) && request.query.has('continue');

export const expired: Fault = { type: 'error-event', status: 410, reason: 'Expired' };

/** Makes the subject relist both kinds once. @returns a function that waits until it had to */
export function forget(): () => Promise<unknown> {
  const faults = ['echos', 'configmaps'].map((resource) =>
    proxy.inject(expired, { on: (request) => isWatch(request) && request.resource === resource, times: 1 }),
  );
  return () => eventually('both watches have expired', async () => faults.every(({ count }) => count === 1));
}

/** Breaks off a streamed list three times, for each relisted kind. */
export async function streamedListBreaksOff(how: 'reset' | 'end'): Promise<void> {
  const forgotten = forget();
  await survive({ fault: { type: 'cut', how, afterBytes: 20_000 }, on: isStreamedList, times: 3, strikes: 3 });
  await forgotten();
}
