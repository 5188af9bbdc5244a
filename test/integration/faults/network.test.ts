import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { kubeconfigConnection, type ReflectorOptions } from '../../../src/runtime/index.ts';
import {
  eventually,
  type Fault,
  FaultProxy,
  type FaultTarget,
  isList,
  isStreamedList,
  isWatch,
  isWrite,
  type RequestFilter,
} from '../../../src/runtime/testing/index.ts';
import { TestCluster } from '../../../testkit/test-cluster.ts';
import { ConfigMap } from './environment/mirror.ts';
import { SubjectProcess } from './environment/subject-process.ts';
import { World } from './environment/world.ts';

let cluster: TestCluster;
let world: World;
let proxy: FaultProxy;
let subject: SubjectProcess;

/** More than a page of 250, so that a list has a second one. */
const ballast = 260;

beforeAll(async () => {
  cluster = await TestCluster.connect();
  world = new World(cluster.client, await cluster.namespace());
  await world.populate();
  await cluster.createMany(ConfigMap, world.namespace, ballast);
});

afterAll(() => cluster.close());

/** Has a block's faults happen to a subject and a proxy of its own. */
function withSubject(watching: ReflectorOptions = {}) {
  let heapBefore: number;

  beforeAll(async () => {
    proxy = await FaultProxy.start({ upstream: await kubeconfigConnection(cluster.kubeconfig) });
    subject = await startSubject(watching);
    // What runs for the first time takes memory for good.
    await survive({ fault: expired, on: isWatch, times: 2 });
  }, 60_000);

  afterAll(async () => {
    await subject.stop();
    await proxy.close();
  }, 60_000);

  beforeEach(async () => {
    await world.converge(subject);
    heapBefore = await subject.ask('heap');
  }, 60_000);

  afterEach(async () => {
    await world.converge(subject);
    await world.heapIsAsBefore(subject, heapBefore);
  }, 90_000);
}

function startSubject(watching: ReflectorOptions): Promise<SubjectProcess> {
  const { server, tls } = proxy.connection;
  return SubjectProcess.start({ server: server.href, tls, namespace: world.namespace, watching });
}

/** Changes Echos until the fault has happened so often, ends it, and changes some more; what came of it is afterEach's. */
async function survive({
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

const isResume: RequestFilter = (request) => isWatch(request) && request.query.has('resourceVersion');

const isSecondPage: RequestFilter = (request) => isList(request) && request.query.has('continue');

const expired: Fault = { type: 'error-event', status: 410, reason: 'Expired' };

/** Makes the subject list both kinds anew, each once; what it returns waits until it had to. */
function forget(): () => Promise<unknown> {
  const faults = ['echos', 'configmaps'].map((resource) =>
    proxy.inject(expired, { on: (request) => isWatch(request) && request.resource === resource, times: 1 }),
  );
  return () => eventually('both watches have expired', async () => faults.every(({ count }) => count === 1));
}

describe('while it streams its lists', () => {
  withSubject();

  test('the connection is reset in mid-watch', async () => {
    await survive({ fault: { type: 'cut', how: 'reset' }, on: isWatch, strikes: 4 });
  });

  test('a watch ends in the middle of a JSON line', async () => {
    await survive({ fault: { type: 'cut', how: 'end' }, on: isWatch, strikes: 4 });
  });

  test.each(['reset', 'end'] as const)('a streamed list breaks off in its middle: %s', async (how) => {
    const forgotten = forget();
    await survive({ fault: { type: 'cut', how, afterBytes: 20_000 }, on: isStreamedList, times: 3, strikes: 3 });
    await forgotten();
  });

  test('410 answers a watch that is resumed', async () => {
    const cut = proxy.inject({ type: 'cut', how: 'reset' }, { on: isWatch, times: 2 });
    await survive({ fault: { type: 'answer', status: 410, reason: 'Expired' }, on: isResume, times: 2, strikes: 2 });
    expect(cut.count).toBe(2);
  });

  test('410 ends a watch from inside', async () => {
    await survive({ fault: expired, on: isWatch, strikes: 4 });
  });

  test.each([
    [429, 'TooManyRequests', 1],
    [500, 'InternalError', undefined],
    [503, 'ServiceUnavailable', 1],
  ])('a storm of %d', async (status, reason, retryAfterSeconds) => {
    const fault: Fault = {
      type: 'answer',
      status,
      reason,
      ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    };
    await survive({ fault, on: isWrite, strikes: 10 });
    // The watches too must come back, in the storm: each is asked for in vain before.
    const cut = proxy.inject({ type: 'cut', how: 'reset' }, { on: isWatch, times: 2 });
    await survive({ fault, strikes: 4 });
    expect(cut.count).toBe(2);
  });

  test('every second write meets a conflict', async () => {
    await survive({ fault: { type: 'answer', status: 409, reason: 'Conflict' }, on: isWrite, every: 2, strikes: 10 });
  });

  test('the reply to every second write is lost', async () => {
    await survive({ fault: { type: 'lost-reply' }, on: isWrite, every: 2, strikes: 10 });
  });

  test('a watch goes silent', async () => {
    await using impatient = await startSubject({ silenceMs: 2_000 });
    await world.converge(impatient);
    const before = await impatient.ask('heap');
    const silence = proxy.inject({ type: 'silence' }, { on: isWatch });
    await eventually('every watch is silent', async () => silence.count >= 4);
    silence.off();
    await world.change();
    await world.converge(impatient);
    await world.heapIsAsBefore(impatient, before);
    // The other one would wait for two minutes.
    proxy.inject({ type: 'cut', how: 'reset' }, { on: isWatch }).off();
  }, 90_000);

  test('a reader is so slow that the server gives its watch up', async () => {
    const before = await terminatedWatches();
    const slow = proxy.inject({ type: 'slow', bytesPerSecond: 50_000 }, { on: isWatch });
    await world.change();
    await cluster.client.apply(ConfigMap, bulky(0), { force: true });
    for (let round = 1; (await terminatedWatches()) === before; round += 1) {
      await cluster.client.apply(ConfigMap, bulky(round), { force: true });
    }
    expect(slow.count).toBeGreaterThanOrEqual(2);
    slow.off();
    await world.change();
  });
});

describe('while it lists in pages', () => {
  withSubject({ listing: 'paged' });

  test('the connection is reset in mid-page', async () => {
    const forgotten = forget();
    await survive({ fault: { type: 'cut', how: 'reset' }, on: isList, times: 2, strikes: 2 });
    await forgotten();
  });

  test('the second page breaks off as if it were whole', async () => {
    const forgotten = forget();
    await survive({ fault: { type: 'cut', how: 'end' }, on: isSecondPage, times: 2, strikes: 2 });
    await forgotten();
  });

  test('a continue token has expired', async () => {
    const forgotten = forget();
    await survive({ fault: { type: 'answer', status: 410, reason: 'Expired' }, on: isSecondPage, times: 1 });
    await forgotten();
  });
});

describe('while it streams its lists, which the server refuses', () => {
  withSubject();

  const streamOf =
    (resource: string): RequestFilter =>
    (request) =>
      isStreamedList(request) && request.resource === resource;

  test('of a watch that it has forgotten', async () => {
    const forgotten = forget();
    const invalid = proxy.inject({ type: 'answer', status: 422, reason: 'Invalid' }, { on: streamOf('echos') });
    await survive({ fault: { type: 'answer', status: 400, reason: 'BadRequest' }, on: streamOf('configmaps') });
    await eventually('both are refused', async () => invalid.count > 0);
    invalid.off();
    await forgotten();
    // It has gone over to pages.
    const relisted = forget();
    await survive({ fault: { type: 'cut', how: 'reset' }, on: isSecondPage, times: 1 });
    await relisted();
  });
});

/** 200 kB that differ from one round to the next. */
const bulky = (round: number) => ({
  metadata: { namespace: world.namespace, name: 'bulky' },
  data: { text: `${round} `.repeat(200_000 / `${round} `.length) },
});

async function terminatedWatches(): Promise<number> {
  const text = await cluster.metrics();
  const lines = text.matchAll(/^apiserver_terminated_watchers_total\{.*resource="configmaps".*\} (\d+)$/gm);
  return [...lines].reduce((sum, [, count]) => sum + Number(count), 0);
}
