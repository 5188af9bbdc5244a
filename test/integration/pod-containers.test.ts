import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import { parse, stringify } from 'yaml';
import { Pod } from '../../src/controllers/built-in-kinds.ts';
import { HttpClient } from '../../src/runtime/client/http-client.ts';
import { kubeconfigConnection, type WatchEvent } from '../../src/runtime/client/index.ts';
import { Transport } from '../../src/runtime/client/transport.ts';
import type { Client, KubeObject, ObjectOf } from '../../src/runtime/index.ts';
import {
  type HolderContainer,
  LeaderElector,
  type LeaderElectorOptions,
  Lease,
  PodContainers,
  type PodContainersOptions,
} from '../../src/runtime/leader-election/index.ts';
import { eventually } from '../../testkit/eventually.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';

type PodObject = ObjectOf<typeof Pod>;
type PodSpec = NonNullable<PodObject['spec']>;
type ContainerStatus = NonNullable<NonNullable<PodObject['status']>['containerStatuses']>[number];
type State = NonNullable<ContainerStatus['state']>;

/** The API's times have no fraction. */
const startedAtMs = Date.parse('2026-01-01T00:00:10.800Z');
const startedAt = '2026-01-01T00:00:10Z';
const before = '2026-01-01T00:00:09Z';

let cluster: TestCluster;
let namespace: string;
let folder: string;
let terminationMessagePath: string;
let log: RecordingLog;
let progress: WatchProgress;
let stop: AbortController;
/** What a test has begun: none of it goes on after the test. */
let begun: Promise<unknown>[];

beforeAll(async () => {
  cluster = await TestCluster.connect();
  namespace = await cluster.namespace();
});
afterAll(() => cluster?.close());

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pod-containers-'));
  terminationMessagePath = join(folder, 'termination-log');
  await writeFile(terminationMessagePath, '');
  log = new RecordingLog();
  progress = new WatchProgress();
  stop = new AbortController();
  begun = [];
});
afterEach(async () => {
  stop.abort(new Error('the test is over'));
  await Promise.allSettled(begun);
  await rm(folder, { recursive: true, force: true });
});

/** How far the watches have come, in whoever reads them: what they have brought was dealt with. */
class WatchProgress {
  #version = 0;

  of(client: Client): Pick<Client, 'list' | 'watchBatches'> {
    return {
      list: (kind, options) => client.list(kind, options),
      watchBatches: (kind, options) => this.#follow(client.watchBatches(kind, options)),
    };
  }

  async reaches(object: KubeObject): Promise<void> {
    const version = Number(object.metadata.resourceVersion);
    await eventually(`the watch has come to version ${version}`, async () => this.#version >= version);
  }

  async *#follow<T extends KubeObject>(
    batches: AsyncIterable<readonly WatchEvent<T>[]>,
  ): AsyncIterable<readonly WatchEvent<T>[]> {
    for await (const batch of batches) {
      yield batch;
      this.#version = Math.max(this.#version, Number(batch.at(-1)?.object.metadata.resourceVersion ?? 0));
    }
  }
}

async function createPod(name: string, spec: Partial<PodSpec> = {}): Promise<PodObject> {
  const containers = [{ name: 'operator', image: 'operator', terminationMessagePath }];
  return cluster.client.create(Pod, { metadata: { name, namespace }, spec: { containers, ...spec } });
}

const running = (since = startedAt): State => ({ running: { startedAt: since } });
const terminated = (
  id: string,
  changes: Partial<NonNullable<State['terminated']>> = {},
): { readonly terminated: NonNullable<State['terminated']> } => ({
  terminated: { containerID: `containerd://${id}`, exitCode: 137, reason: 'Error', ...changes },
});

/** There is no kubelet here: writes what it would about the pod's container. */
async function kubeletSays(
  { metadata: { name } }: PodObject,
  id: string,
  state: State,
  lastState: State = {},
  list: 'containerStatuses' | 'initContainerStatuses' = 'containerStatuses',
): Promise<PodObject> {
  const { resourceVersion } = (await cluster.client.get(Pod, { name, namespace })).metadata;
  const status = { name: 'operator', image: 'operator', imageID: '', ready: false, restartCount: 0, state, lastState };
  return cluster.client.mergeStatus(
    Pod,
    { name, namespace, resourceVersion },
    { [list]: [{ ...status, containerID: `containerd://${id}` }] },
  );
}

function containersOf(pod: PodObject, options: Partial<PodContainersOptions> = {}): PodContainers {
  const client = progress.of(cluster.client);
  const { name: podName, uid: podUid } = pod.metadata;
  return new PodContainers({
    client,
    namespace,
    podName,
    podUid,
    containerName: 'operator',
    log,
    startedAtMs,
    ...options,
  });
}

/** Begins something that the end of the test ends, and tells what has become of it. */
function begin<T>(work: (signal: AbortSignal) => Promise<T>): { readonly result: Promise<T>; isOver(): boolean } {
  let over = false;
  const result = work(stop.signal).finally(() => {
    over = true;
  });
  begun.push(result);
  result.catch(() => {});
  return { result, isOver: () => over };
}

const told = async (): Promise<string> => readFile(terminationMessagePath, 'utf8');

describe('its own container', () => {
  test('is the one that the status shows running since this process began; an earlier one is not', async () => {
    const pod = await createPod('own');
    const own = begin((signal) => containersOf(pod).own(signal));
    await eventually('it watches', async () => log.messages('debug').includes('listed'));
    await progress.reaches(await kubeletSays(pod, '1', running(before)));
    await progress.reaches(await kubeletSays(pod, '1', { waiting: { reason: 'CrashLoopBackOff' } }, terminated('1')));
    expect(own.isOver()).toBe(false);
    expect(await told()).toBe('');
    await kubeletSays(pod, '2', running(), terminated('1'));
    const container = await own.result;
    expect(container).toMatchObject({
      namespace,
      podName: 'own',
      podUid: pod.metadata.uid,
      containerName: 'operator',
      containerId: 'containerd://2',
    });
    expect(await told()).toBe(`leader election: ${container?.terminationToken}\n`);
  });

  test('may be a sidecar', async () => {
    const sidecar = { name: 'operator', image: 'operator', terminationMessagePath, restartPolicy: 'Always' };
    const spec = { initContainers: [sidecar], containers: [{ name: 'main', image: 'main' }] };
    const pod = await createPod('sidecar', spec);
    await kubeletSays(pod, '1', running(), {}, 'initContainerStatuses');
    const container = await begin((signal) => containersOf(pod).own(signal)).result;
    expect(container?.containerId).toBe('containerd://1');
  });

  test('is not that of a pod with another uid', async () => {
    const pod = await createPod('other-uid');
    await kubeletSays(pod, '1', running());
    const own = begin((signal) => containersOf(pod, { podUid: 'another' }).own(signal));
    await eventually('it watches', async () => log.messages('debug').includes('listed'));
    await progress.reaches(await kubeletSays(pod, '2', running()));
    expect(own.isOver()).toBe(false);
    stop.abort(new Error('enough'));
    await expect(own.result).rejects.toThrow('enough');
  });

  test.each<[string, Partial<PodSpec>, Partial<PodContainersOptions>, string]>([
    ['shareProcessNamespace', { shareProcessNamespace: true }, {}, 'shareProcessNamespace'],
    ['hostPID', { hostPID: true }, {}, 'hostPID'],
    ['no such container', {}, { containerName: 'typo' }, 'no container typo'],
  ])('is never certain with %s, and a line says so', async (name, spec, options, why) => {
    const pod = await createPod(`never-${name.toLowerCase().replaceAll(' ', '-')}`, spec);
    await kubeletSays(pod, '1', running());
    expect(await begin((signal) => containersOf(pod, options).own(signal)).result).toBeUndefined();
    expect(log.lines.filter(({ level }) => level !== 'debug')).toEqual([
      {
        level: 'info',
        message: 'a crash of this leader will be noticed only when its lease expires',
        details: { why: expect.stringContaining(why) },
      },
    ]);
    expect(await told()).toBe('');
  });

  test('is never certain in a static pod, whose uid the API server does not have', async () => {
    const metadata = { name: 'static', namespace, annotations: { 'kubernetes.io/config.mirror': 'hash' } };
    const pod = await cluster.client.create(Pod, {
      metadata,
      spec: { containers: [{ name: 'operator', image: 'operator' }], nodeName: 'node' },
    });
    try {
      expect(await begin((signal) => containersOf(pod, { podUid: 'hash' }).own(signal)).result).toBeUndefined();
    } finally {
      // It is bound to a node, on which no kubelet would end it.
      await cluster.client.delete(Pod, { name: 'static', namespace }, { gracePeriodSeconds: 0 });
    }
  });

  test('cannot be recognised where it can leave no termination message', async () => {
    await rm(terminationMessagePath);
    const pod = await createPod('no-message');
    await kubeletSays(pod, '1', running());
    expect(await begin((signal) => containersOf(pod).own(signal)).result).toBeUndefined();
    expect(log.messages('warn')).toEqual(['a crash of this leader will be noticed only when its lease expires']);
  });
});

describe("another's container", () => {
  const holderIn = (pod: PodObject): HolderContainer => ({
    namespace,
    podName: pod.metadata.name,
    podUid: pod.metadata.uid,
    containerName: 'operator',
    containerId: 'containerd://1',
    terminationToken: 'the-token',
  });
  const message = 'leader election: the-token\n';

  test('has ended when the kubelet has seen it, and by nothing else', async () => {
    const [pod, mine] = [await createPod('holder'), await createPod('mine')];
    const ended = begin((signal) => containersOf(mine).ended(holderIn(pod), signal));
    await eventually('it watches', async () => log.messages('debug').includes('listed'));
    const noProof: readonly [string, State, State?][] = [
      ['1', running()],
      ['1', terminated('1', { message, reason: 'ContainerStatusUnknown' })],
      ['1', terminated('1', { message, reason: 'Unknown', exitCode: 255 })],
      ['1', terminated('1', { message, exitCode: 255 })],
      ['1', terminated('1', { message: 'leader election: another' })],
      ['2', running(), terminated('0', { message })],
    ];
    for (const [id, state, lastState] of noProof) await progress.reaches(await kubeletSays(pod, id, state, lastState));
    expect(ended.isOver()).toBe(false);
    await kubeletSays(pod, '2', running(), terminated('1', { message }));
    await ended.result;
  });

  test('has not ended because its pod is gone, nor by the status of one that has its name', async () => {
    const [pod, mine] = [await createPod('gone'), await createPod('mine-too')];
    const ended = begin((signal) => containersOf(mine).ended(holderIn(pod), signal));
    await eventually('it watches', async () => log.messages('debug').includes('listed'));
    await cluster.client.delete(Pod, { name: 'gone', namespace }, { gracePeriodSeconds: 0 });
    const second = await createPod('gone');
    await progress.reaches(await kubeletSays(second, '1', terminated('1', { message })));
    expect(ended.isOver()).toBe(false);
  });

  test("that was this container's earlier instance has ended when the status has come to a later one", async () => {
    const pod = await createPod('restarted');
    await kubeletSays(pod, '1', running());
    const ended = begin((signal) => containersOf(pod).ended(holderIn(pod), signal));
    await eventually('it watches', async () => log.messages('debug').filter((line) => line === 'listed').length === 2);
    await progress.reaches(await kubeletSays(pod, '1', running(before)));
    expect(ended.isOver()).toBe(false);
    // Without the message, and with an instance between that one and this.
    await kubeletSays(pod, '3', running(), terminated('2'));
    await ended.result;
  });

  test('is not an earlier instance where its token is in our own termination message', async () => {
    await writeFile(terminationMessagePath, message);
    const pod = await createPod('exec');
    const ended = begin((signal) => containersOf(pod).ended(holderIn(pod), signal));
    await eventually('it watches', async () => log.messages('debug').filter((line) => line === 'listed').length === 2);
    await progress.reaches(await kubeletSays(pod, '3', running(), terminated('2')));
    expect(ended.isOver()).toBe(false);
  });
});

describe('where pods may not be read', () => {
  test('it says so once, and finds its container when it may', async () => {
    const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
    const run = async (...args: string[]): Promise<string> =>
      (await execa(kubectl, [...args, '--namespace', namespace], { env: { KUBECONFIG: cluster.kubeconfig } })).stdout;
    await run('create', 'serviceaccount', 'nobody');
    const token = await run('create', 'token', 'nobody');
    const config = parse(await readFile(cluster.kubeconfig, 'utf8'));
    config.users = config.users.map(({ name }: { name: string }) => ({ name, user: { token } }));
    const kubeconfig = join(folder, 'kubeconfig');
    await writeFile(kubeconfig, stringify(config));
    const transport = new Transport(await kubeconfigConnection(kubeconfig), { userAgent: 'test' });
    begun.push(eventually('stopped', async () => stop.signal.aborted).then(() => transport.close()));

    const pod = await createPod('refused');
    await kubeletSays(pod, '1', running());
    const own = begin((signal) => containersOf(pod, { client: new HttpClient(transport, 'test') }).own(signal));
    const refusals = () => log.lines.filter(({ message }) => message.startsWith('pods may not be read'));
    await eventually('it was refused several times', async () => refusals().length >= 3);
    expect(refusals().map(({ level }) => level)).toEqual([
      'warn',
      ...refusals()
        .slice(1)
        .map(() => 'debug'),
    ]);
    expect(log.messages('warn')).toHaveLength(1);
    await run('create', 'role', 'pods', '--verb=get,list,watch', '--resource=pods');
    await run('create', 'rolebinding', 'pods', '--role=pods', `--serviceaccount=${namespace}:nobody`);
    expect((await own.result)?.containerId).toBe('containerd://1');
  });
});

describe('a leader that crashed', () => {
  // Longer than a test may take: who takes the Lease has not waited for it to expire.
  const timings = { leaseDurationSeconds: 600, renewDeadlineSeconds: 500, retryPeriodSeconds: 0.2 };

  /** A candidate that leads until the test is over; its client is cut off when it crashes. */
  async function candidate(
    name: string,
    identity: string,
    containers: PodContainers,
  ): Promise<{ readonly leads: Promise<void>; crash(): Promise<void> }> {
    const transport = new Transport(await kubeconfigConnection(cluster.kubeconfig), { userAgent: identity });
    const options: LeaderElectorOptions = {
      client: new HttpClient(transport, identity),
      lease: { namespace, name },
      identity,
      timings,
      log,
      containers,
    };
    const leads = Promise.withResolvers<void>();
    const lead = async (signal: AbortSignal): Promise<void> => {
      leads.resolve();
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    };
    begin((signal) => new LeaderElector(options).run(signal, lead).finally(() => transport.close()));
    return { leads: leads.promise, crash: () => transport.close() };
  }

  const published = async (name: string): Promise<string> =>
    eventually('the leader has published its container', async () => {
      const { annotations = {} } = (await cluster.client.get(Lease, { namespace, name })).metadata;
      return annotations['leader-election.echoperator.io/holder'];
    });

  test('is succeeded by a standby as soon as the kubelet has seen it end', async () => {
    const pod = await createPod('crashes');
    await kubeletSays(pod, '1', running());
    const first = await candidate('crash', 'first', containersOf(pod));
    await first.leads;
    const { terminationToken } = JSON.parse(await published('crash'));
    const second = await candidate('crash', 'second', containersOf(await createPod('stands-by')));
    await eventually('the standby watches', async () => log.messages('info').includes('another leads'));
    await first.crash();
    await kubeletSays(pod, '1', terminated('1', { message: `leader election: ${terminationToken}\n` }));
    await second.leads;
    expect((await cluster.client.get(Lease, { namespace, name: 'crash' })).spec?.holderIdentity).toBe('second');
  });

  test('is succeeded by its own container when that was restarted', async () => {
    const pod = await createPod('restarts');
    await kubeletSays(pod, '1', running());
    const first = await candidate('restart', 'first', containersOf(pod));
    await first.leads;
    await published('restart');
    await first.crash();
    // The new instance has a new file.
    await writeFile(terminationMessagePath, '');
    await kubeletSays(pod, '2', running(), terminated('1', { reason: 'OOMKilled' }));
    const second = await candidate('restart', 'second', containersOf(pod));
    await second.leads;
    const holder = async () => (await cluster.client.get(Lease, { namespace, name: 'restart' })).spec?.holderIdentity;
    expect(await holder()).toBe('second');
    await eventually('it publishes its container', async () => (await published('restart')).includes('containerd://2'));
  });
});
