import { randomUUID } from 'node:crypto';
import type { KubeObject, Manifest } from '@echoperator/runtime';
import { ApiError, kubeconfigConnection } from '@echoperator/runtime/client';
import { Lease } from '@echoperator/runtime/kinds';
import {
  type CrashDetector,
  LeaderElector,
  type LeaderElectorOptions,
  LeadershipLostError,
} from '@echoperator/runtime/leader-election';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { HttpClient } from '../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../packages/runtime/src/client/transport.ts';
import { eventually } from '../../testkit/eventually.ts';
import { inTime } from '../../testkit/in-time.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';

// So long that no test waits for a Lease to expire, nor for a renewal after the first.
const timings = { leaseDurationSeconds: 600, renewDeadlineSeconds: 500, retryPeriodSeconds: 0.5 };

let cluster: TestCluster;
let namespace: string;
let transport: Transport;
let lease: { readonly namespace: string; readonly name: string };
let log: RecordingLog;
let stop: AbortController;
let running: Promise<unknown>[];

beforeAll(async () => {
  cluster = await TestCluster.connect();
  namespace = await cluster.namespace();
  transport = new Transport(await kubeconfigConnection(cluster.kubeconfig), { userAgent: 'test' });
});
afterAll(async () => {
  await transport?.close();
  await cluster?.close();
});
beforeEach(() => {
  lease = { namespace, name: `lock-${randomUUID()}` };
  log = new RecordingLog();
  stop = new AbortController();
  running = [];
});
afterEach(async () => {
  stop.abort(new Error('the test is over'));
  await Promise.allSettled(running);
});

const client = (): HttpClient => new HttpClient(transport, 'test');

const elector = (options: Partial<LeaderElectorOptions> = {}): LeaderElector =>
  new LeaderElector({ client: client(), lease, identity: 'me', timings, log, ...options });

/** Runs a candidate until the test is over. `leads` resolves when it leads, `ended` with the error of its run. */
function run(candidate: LeaderElector): { readonly leads: Promise<void>; readonly ended: Promise<unknown> } {
  const leads = Promise.withResolvers<void>();
  const lead = async (signal: AbortSignal): Promise<void> => {
    leads.resolve();
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  };
  const ended = candidate.run(stop.signal, lead).catch((error: unknown) => error);
  running.push(ended);
  return { leads: leads.promise, ended };
}

const holder = async (): Promise<string | undefined> => (await cluster.client.get(Lease, lease)).spec?.holderIdentity;

test('a candidate that is stopped while it acquires the Lease releases it', async () => {
  const inner = client();
  const aborting = {
    get: inner.get.bind(inner),
    list: inner.list.bind(inner),
    watchBatches: inner.watchBatches.bind(inner),
    update: inner.update.bind(inner),
    create: async <T extends KubeObject>(...[kind, manifest, options]: Parameters<typeof inner.create<T>>) => {
      const created = await inner.create(kind, manifest);
      stop.abort();
      // As a client that is still waiting for the response.
      options?.signal?.throwIfAborted();
      return created;
    },
  };
  const candidate = elector({ client: aborting });
  await candidate.run(stop.signal, async () => {
    throw new Error('it leads');
  });
  expect(await holder()).toBe('');
  expect(() => candidate.fence.pass()).toThrow('stopped before it led');
});

test('a candidate that is stopped without a response to its claim releases the Lease', async () => {
  const inner = client();
  const unanswered = {
    get: inner.get.bind(inner),
    list: inner.list.bind(inner),
    watchBatches: inner.watchBatches.bind(inner),
    update: inner.update.bind(inner),
    create: async <T extends KubeObject>(...[kind, manifest]: Parameters<typeof inner.create<T>>): Promise<T> => {
      await inner.create(kind, manifest);
      stop.abort();
      throw new Error('no answer');
    },
  };
  await elector({ client: unanswered }).run(stop.signal, async () => {
    throw new Error('it leads');
  });
  expect(await holder()).toBe('');
});

test('a leader whose namespace was deleted creates its Lease once per retry period', async () => {
  const inner = client();
  const requests = { updates: 0, creations: 0 };
  const withoutNamespace = {
    get: inner.get.bind(inner),
    list: inner.list.bind(inner),
    watchBatches: inner.watchBatches.bind(inner),
    update: <T extends KubeObject>(...args: Parameters<typeof inner.update<T>>) => {
      requests.updates += 1;
      return inner.update(...args);
    },
    create: async <T extends KubeObject>(...[kind, manifest]: Parameters<typeof inner.create<T>>): Promise<T> => {
      requests.creations += 1;
      if (requests.creations === 1) return inner.create(kind, manifest);
      throw new ApiError('POST /leases', 404, { reason: 'NotFound', message: 'namespaces "x" not found' });
    },
  };
  const { leads } = run(elector({ client: withoutNamespace }));
  await inTime('the candidate leads', leads);
  await cluster.client.delete(Lease, lease);
  await eventually('it has tried to create the Lease again', async () => requests.creations >= 3);
  expect(requests.creations).toBeLessThanOrEqual(requests.updates + 1);
});

test('a callback that throws does not end leadership', async () => {
  const onNewLeader = (): never => {
    throw new Error('a defect');
  };
  const first = run(elector({ identity: 'first', onNewLeader }));
  await inTime('the first leads', first.leads);
  const firstLog = log;
  log = new RecordingLog();
  run(elector({ identity: 'second', onNewLeader }));
  await eventually('the standby has called its callback', async () => log.messages('error').length > 0);
  expect(firstLog.messages('error')).toEqual(['onNewLeader threw']);
  expect(log.messages('warn')).toEqual([]);
  stop.abort();
  expect(await inTime('the first ends', first.ended)).toBeUndefined();
  expect(await holder()).toBe('');
});

test('a new leader does not wait for the end of the crash watch that it began as a standby', async () => {
  const slow = Promise.withResolvers<void>();
  const watching = Promise.withResolvers<void>();
  const crashDetector: CrashDetector = {
    annotation: 'example.com/holder',
    describeProcess: async () => 'a container',
    waitForEnd: async () => {
      watching.resolve();
      await slow.promise;
      throw new Error('aborted');
    },
  };
  const stopFirst = new AbortController();
  const first = elector({ identity: 'first', crashDetector }).run(
    stopFirst.signal,
    (signal) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true })),
  );
  await eventually('the first leads', async () => (await holder().catch(() => '')) === 'first');
  const second = run(elector({ identity: 'second', crashDetector }));
  await inTime('the second watches the first', watching.promise);
  stopFirst.abort();
  await first;
  await inTime('the second leads', second.leads);
  slow.resolve();
});

test('a leader whose Lease was deleted and created by another candidate loses it at once', async () => {
  const inner = client();
  let updatesAfter = 0;
  let isCreatedByOther = false;
  const overtaken = {
    get: inner.get.bind(inner),
    list: inner.list.bind(inner),
    watchBatches: inner.watchBatches.bind(inner),
    update: async <T extends KubeObject>(...args: Parameters<typeof inner.update<T>>) => {
      if (isCreatedByOther) updatesAfter += 1;
      return inner.update(...args);
    },
    create: async <T extends KubeObject>(...[kind, manifest, options]: Parameters<typeof inner.create<T>>) => {
      if (isLeading) {
        const spec = { holderIdentity: 'faster', leaseDurationSeconds: 15 };
        const metadata = { ...lease };
        await cluster.client.create(Lease, { metadata, spec } satisfies Manifest<Lease>);
        isCreatedByOther = true;
      }
      return inner.create(kind, manifest, options);
    },
  };
  let isLeading = false;
  const candidate = run(elector({ client: overtaken }));
  await inTime('the candidate leads', candidate.leads);
  isLeading = true;
  await cluster.client.delete(Lease, lease);
  const error = await inTime('the candidate ends', candidate.ended);
  expect(error).toBeInstanceOf(LeadershipLostError);
  expect(String(error)).toContain('is held by faster');
  expect(updatesAfter).toBe(0);
});

test('a candidate warns if the namespace of the Lease does not exist', async () => {
  lease = { namespace: 'not-there', name: 'lock' };
  run(elector());
  await eventually('a warning', async () =>
    log.messages('warn').includes('the lease could not be taken: trying again'),
  );
});
