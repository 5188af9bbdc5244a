import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { HttpClient } from '../../src/runtime/client/http-client.ts';
import { ApiError, kubeconfigConnection } from '../../src/runtime/client/index.ts';
import { Transport } from '../../src/runtime/client/transport.ts';
import type { KubeObject, Manifest } from '../../src/runtime/index.ts';
import {
  type HolderContainer,
  LeaderElector,
  type LeaderElectorOptions,
  LeadershipLostError,
  Lease,
} from '../../src/runtime/leader-election/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';

// Long ones: nothing here has waited for a Lease to expire, nor for a renewal but the first.
const timings = { leaseDurationSeconds: 600, renewDeadlineSeconds: 500, retryPeriodSeconds: 0.5 };

let cluster: TestCluster;
let namespace: string;
let transport: Transport;
let lease: { readonly namespace: string; readonly name: string };
let log: RecordingLog;
let stop: AbortController;
let begun: Promise<unknown>[];

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
  begun = [];
});
afterEach(async () => {
  stop.abort(new Error('the test is over'));
  await Promise.allSettled(begun);
});

const client = (): HttpClient => new HttpClient(transport, 'test');

const elector = (options: Partial<LeaderElectorOptions> = {}): LeaderElector =>
  new LeaderElector({ client: client(), lease, identity: 'me', timings, log, ...options });

/** Runs until the test is over; tells when it leads, and how it ended. */
function run(candidate: LeaderElector): { readonly leads: Promise<void>; readonly ended: Promise<unknown> } {
  const leads = Promise.withResolvers<void>();
  const lead = async (signal: AbortSignal): Promise<void> => {
    leads.resolve();
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  };
  const ended = candidate.run(stop.signal, lead).catch((error: unknown) => error);
  begun.push(ended);
  return { leads: leads.promise, ended };
}

const holder = async (): Promise<string | undefined> => (await cluster.client.get(Lease, lease)).spec?.holderIdentity;

test('stopped while it takes the Lease, it has not kept it', async () => {
  const inner = client();
  const aborting = {
    get: inner.get.bind(inner),
    list: inner.list.bind(inner),
    watchBatches: inner.watchBatches.bind(inner),
    update: inner.update.bind(inner),
    create: async <T extends KubeObject>(...[kind, manifest, options]: Parameters<typeof inner.create<T>>) => {
      const made = await inner.create(kind, manifest);
      stop.abort();
      // As a client whose answer is not there yet.
      options?.signal?.throwIfAborted();
      return made;
    },
  };
  const candidate = elector({ client: aborting });
  await candidate.run(stop.signal, async () => {
    throw new Error('it leads');
  });
  expect(await holder()).toBe('');
  expect(() => candidate.fence.pass()).toThrow('stopped before it led');
});

test('stopped without an answer to what made it the holder, it has not kept the Lease', async () => {
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

test('a leader whose namespace is gone asks for its Lease once a retry period', async () => {
  const inner = client();
  const asked = { updates: 0, creations: 0 };
  const homeless = {
    get: inner.get.bind(inner),
    list: inner.list.bind(inner),
    watchBatches: inner.watchBatches.bind(inner),
    update: <T extends KubeObject>(...args: Parameters<typeof inner.update<T>>) => {
      asked.updates += 1;
      return inner.update(...args);
    },
    create: async <T extends KubeObject>(...[kind, manifest]: Parameters<typeof inner.create<T>>): Promise<T> => {
      asked.creations += 1;
      if (asked.creations === 1) return inner.create(kind, manifest);
      throw new ApiError('POST /leases', 404, { reason: 'NotFound', message: 'namespaces "x" not found' });
    },
  };
  const { leads } = run(elector({ client: homeless }));
  await leads;
  await cluster.client.delete(Lease, lease);
  await eventually('it has tried to make it again', async () => asked.creations >= 3);
  expect(asked.creations).toBeLessThanOrEqual(asked.updates + 1);
});

test('a callback that throws costs no leadership', async () => {
  const onNewLeader = (): never => {
    throw new Error('a defect');
  };
  const first = run(elector({ identity: 'first', onNewLeader }));
  await first.leads;
  const firstLog = log;
  log = new RecordingLog();
  run(elector({ identity: 'second', onNewLeader }));
  await eventually('the other is told', async () => log.messages('error').length > 0);
  expect(firstLog.messages('error')).toEqual(['onNewLeader threw']);
  expect(log.messages('warn')).toEqual([]);
  stop.abort();
  expect(await first.ended).toBeUndefined();
  expect(await holder()).toBe('');
});

test('it leads although what it watched as a standby has not come to its end', async () => {
  const container: HolderContainer = {
    namespace,
    podName: 'p',
    podUid: 'u',
    containerName: 'c',
    containerId: 'containerd://1',
    terminationToken: 't',
  };
  const slow = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const containers = {
    own: async () => container,
    ended: async () => {
      asked.resolve();
      await slow.promise;
      throw new Error('aborted');
    },
  };
  const stopFirst = new AbortController();
  const first = elector({ identity: 'first', containers }).run(
    stopFirst.signal,
    (signal) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true })),
  );
  await eventually('the first leads', async () => (await holder().catch(() => '')) === 'first');
  const second = run(elector({ identity: 'second', containers }));
  await asked.promise;
  stopFirst.abort();
  await first;
  await second.leads;
  slow.resolve();
});

test('a Lease that was deleted and made by another is lost at once', async () => {
  const inner = client();
  let updatesAfter = 0;
  let made = false;
  const beaten = {
    get: inner.get.bind(inner),
    list: inner.list.bind(inner),
    watchBatches: inner.watchBatches.bind(inner),
    update: async <T extends KubeObject>(...args: Parameters<typeof inner.update<T>>) => {
      if (made) updatesAfter += 1;
      return inner.update(...args);
    },
    create: async <T extends KubeObject>(...[kind, manifest, options]: Parameters<typeof inner.create<T>>) => {
      if (begunToLead) {
        const spec = { holderIdentity: 'faster', leaseDurationSeconds: 15 };
        const metadata = { ...lease };
        await cluster.client.create(Lease, { metadata, spec } satisfies Manifest<Lease>);
        made = true;
      }
      return inner.create(kind, manifest, options);
    },
  };
  let begunToLead = false;
  const candidate = run(elector({ client: beaten }));
  await candidate.leads;
  begunToLead = true;
  await cluster.client.delete(Lease, lease);
  const error = await candidate.ended;
  expect(error).toBeInstanceOf(LeadershipLostError);
  expect(String(error)).toContain('is held by faster');
  expect(updatesAfter).toBe(0);
});

test('a namespace that is not there is warned of', async () => {
  lease = { namespace: 'not-there', name: 'lock' };
  run(elector());
  await eventually('a warning', async () =>
    log.messages('warn').includes('the lease could not be taken: trying again'),
  );
});
