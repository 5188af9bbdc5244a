import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client, KubeObject } from '@echoperator/runtime';
import { kubeconfigConnection, type WatchEvent } from '@echoperator/runtime/client';
import { Lease, Pod } from '@echoperator/runtime/kinds';
import {
  LeaderElector,
  type LeaderElectorOptions,
  PodCrashDetector,
  type PodCrashDetectorOptions,
} from '@echoperator/runtime/leader-election';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { execa } from 'execa';
import * as yaml from 'yaml';
import { HttpClient } from '../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../packages/runtime/src/client/transport.ts';
import { eventually } from '../../testkit/eventually.ts';
import { inTime } from '../../testkit/in-time.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';
import { TestCluster } from '../../testkit/test-cluster.ts';
import { ensureBinaries } from '../../tools/programs/index.ts';

type PodSpec = NonNullable<Pod['spec']>;
type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];
type State = NonNullable<ContainerStatus['state']>;

const annotation = 'example.com/holder';
/** The API truncates times to whole seconds. */
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
/** The runs that a test started. They end with the test. */
let started: Promise<unknown>[];

beforeAll(async () => {
  cluster = await TestCluster.connect();
  namespace = await cluster.namespace();
});
afterAll(() => cluster?.close());

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'crash-detection-'));
  terminationMessagePath = join(folder, 'termination-log');
  await writeFile(terminationMessagePath, '');
  log = new RecordingLog();
  progress = new WatchProgress();
  stop = new AbortController();
  started = [];
});
afterEach(async () => {
  stop.abort(new Error('the test is over'));
  await Promise.allSettled(started);
  await rm(folder, { recursive: true, force: true });
});

/** The last resourceVersion of the watches' events that their reader has processed. */
class WatchProgress {
  #version = 0;

  track(client: Client): Pick<Client, 'list' | 'watchBatches'> {
    return {
      list: (kind, options) => client.list(kind, options),
      watchBatches: (kind, options) => this.#follow(client.watchBatches(kind, options)),
    };
  }

  async waitFor(object: KubeObject): Promise<void> {
    const version = Number(object.metadata.resourceVersion);
    await eventually(`the watch has processed version ${version}`, async () => this.#version >= version);
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

async function createPod(name: string, spec: Partial<PodSpec> = {}): Promise<Pod> {
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

/** Writes the container's status in place of a kubelet. */
async function writeStatus(
  { metadata: { name } }: Pod,
  id: string,
  state: State,
  lastState: State = {},
  list: 'containerStatuses' | 'initContainerStatuses' = 'containerStatuses',
): Promise<Pod> {
  const { resourceVersion } = (await cluster.client.get(Pod, { name, namespace })).metadata;
  const status = { name: 'operator', image: 'operator', imageID: '', ready: false, restartCount: 0, state, lastState };
  return cluster.client.mergeStatus(
    Pod,
    { name, namespace, resourceVersion },
    { [list]: [{ ...status, containerID: `containerd://${id}` }] },
  );
}

function detectorIn(pod: Pod, options: Partial<PodCrashDetectorOptions> = {}): PodCrashDetector {
  const client = progress.track(cluster.client);
  const { name: podName, uid: podUid } = pod.metadata;
  return new PodCrashDetector({
    client,
    annotation,
    namespace,
    podName,
    podUid,
    containerName: 'operator',
    log,
    startedAtMs,
    ...options,
  });
}

const parse = (description: string | undefined): Readonly<Record<string, string>> => JSON.parse(description ?? '{}');

/** Starts work that the end of the test aborts. */
function start<T>(work: (signal: AbortSignal) => Promise<T>): { readonly result: Promise<T>; isOver(): boolean } {
  let over = false;
  const result = work(stop.signal).finally(() => {
    over = true;
  });
  started.push(result);
  result.catch(() => {});
  return {
    get result() {
      return inTime('the detector returns', result);
    },
    isOver: () => over,
  };
}

const terminationMessage = async (): Promise<string> => readFile(terminationMessagePath, 'utf8');

describe('a process describes its own container', () => {
  test('when the status shows the running instance, and not an earlier one', async () => {
    const pod = await createPod('own');
    const own = start((signal) => detectorIn(pod).describeProcess('me', signal));
    await eventually('it watches', async () => log.messages('debug').includes('listed'));
    await progress.waitFor(await writeStatus(pod, '1', running(before)));
    await progress.waitFor(await writeStatus(pod, '1', { waiting: { reason: 'CrashLoopBackOff' } }, terminated('1')));
    expect(own.isOver()).toBe(false);
    expect(await terminationMessage()).toBe('');
    await writeStatus(pod, '2', running(), terminated('1'));
    const container = parse(await own.result);
    expect(container).toMatchObject({
      holderIdentity: 'me',
      namespace,
      podName: 'own',
      podUid: pod.metadata.uid,
      containerName: 'operator',
      containerId: 'containerd://2',
    });
    expect(await terminationMessage()).toBe(`leader election: ${container.terminationToken}\n`);
  });

  test('also in a sidecar', async () => {
    const sidecar = { name: 'operator', image: 'operator', terminationMessagePath, restartPolicy: 'Always' };
    const spec = { initContainers: [sidecar], containers: [{ name: 'main', image: 'main' }] };
    const pod = await createPod('sidecar', spec);
    await writeStatus(pod, '1', running(), {}, 'initContainerStatuses');
    const description = await start((signal) => detectorIn(pod).describeProcess('me', signal)).result;
    expect(parse(description).containerId).toBe('containerd://1');
  });

  test('not in a pod with another uid', async () => {
    const pod = await createPod('other-uid');
    await writeStatus(pod, '1', running());
    const own = start((signal) => detectorIn(pod, { podUid: 'another' }).describeProcess('me', signal));
    await eventually('it watches', async () => log.messages('debug').includes('listed'));
    await progress.waitFor(await writeStatus(pod, '2', running()));
    expect(own.isOver()).toBe(false);
    stop.abort(new Error('enough'));
    await expect(own.result).rejects.toThrow('enough');
  });

  test.each<[string, Partial<PodSpec>, Partial<PodCrashDetectorOptions>, string]>([
    ['shareProcessNamespace', { shareProcessNamespace: true }, {}, 'shareProcessNamespace'],
    ['hostPID', { hostPID: true }, {}, 'hostPID'],
    ['no such container', {}, { containerName: 'typo' }, 'no container typo'],
  ])('not with %s, and logs why', async (name, spec, options, why) => {
    const pod = await createPod(`never-${name.toLowerCase().replaceAll(' ', '-')}`, spec);
    await writeStatus(pod, '1', running());
    expect(await start((signal) => detectorIn(pod, options).describeProcess('me', signal)).result).toBeUndefined();
    expect(log.lines.filter(({ level }) => level !== 'debug')).toEqual([
      {
        level: 'info',
        message: 'a crash of this leader will be noticed only when its lease expires',
        details: { why: expect.stringContaining(why) },
      },
    ]);
    expect(await terminationMessage()).toBe('');
  });

  test('not in a static pod, whose uid the API server does not have', async () => {
    const metadata = { name: 'static', namespace, annotations: { 'kubernetes.io/config.mirror': 'hash' } };
    const pod = await cluster.client.create(Pod, {
      metadata,
      spec: { containers: [{ name: 'operator', image: 'operator' }], nodeName: 'node' },
    });
    try {
      expect(
        await start((signal) => detectorIn(pod, { podUid: 'hash' }).describeProcess('me', signal)).result,
      ).toBeUndefined();
    } finally {
      // It is bound to a node without a kubelet that would end it.
      await cluster.client.delete(Pod, { name: 'static', namespace }, { gracePeriodSeconds: 0 });
    }
  });

  test('not without a termination message file', async () => {
    await rm(terminationMessagePath);
    const pod = await createPod('no-message');
    await writeStatus(pod, '1', running());
    expect(await start((signal) => detectorIn(pod).describeProcess('me', signal)).result).toBeUndefined();
    expect(log.messages('warn')).toEqual(['a crash of this leader will be noticed only when its lease expires']);
  });
});

describe("the end of the holder's container", () => {
  const holderIn = (pod: Pod): string =>
    JSON.stringify({
      holderIdentity: 'holder',
      namespace,
      podName: pod.metadata.name,
      podUid: pod.metadata.uid,
      containerName: 'operator',
      containerId: 'containerd://1',
      terminationToken: 'the-token',
    });
  const message = 'leader election: the-token\n';

  test('is proven by a termination that the kubelet has observed, and by nothing else', async () => {
    const [pod, mine] = [await createPod('holder'), await createPod('mine')];
    const ended = start((signal) => detectorIn(mine).waitForEnd('holder', holderIn(pod), signal));
    await eventually('it watches', async () => log.messages('debug').includes('listed'));
    const noProof: readonly [string, State, State?][] = [
      ['1', running()],
      ['1', terminated('1', { message, reason: 'ContainerStatusUnknown' })],
      ['1', terminated('1', { message, reason: 'Unknown', exitCode: 255 })],
      ['1', terminated('1', { message, exitCode: 255 })],
      ['1', terminated('1', { message: 'leader election: another' })],
      ['2', running(), terminated('0', { message })],
    ];
    for (const [id, state, lastState] of noProof) await progress.waitFor(await writeStatus(pod, id, state, lastState));
    expect(ended.isOver()).toBe(false);
    await writeStatus(pod, '2', running(), terminated('1', { message }));
    await ended.result;
  });

  test('is not proven by the deletion of its pod, nor by another pod of its name', async () => {
    const [pod, mine] = [await createPod('gone'), await createPod('mine-too')];
    const ended = start((signal) => detectorIn(mine).waitForEnd('holder', holderIn(pod), signal));
    await eventually('it watches', async () => log.messages('debug').includes('listed'));
    await cluster.client.delete(Pod, { name: 'gone', namespace }, { gracePeriodSeconds: 0 });
    const second = await createPod('gone');
    await progress.waitFor(await writeStatus(second, '1', terminated('1', { message })));
    expect(ended.isOver()).toBe(false);
  });

  test('is proven for an earlier instance of this container if the status shows a later one', async () => {
    const pod = await createPod('restarted');
    await writeStatus(pod, '1', running());
    const ended = start((signal) => detectorIn(pod).waitForEnd('holder', holderIn(pod), signal));
    await eventually('it watches', async () => log.messages('debug').filter((line) => line === 'listed').length === 2);
    await progress.waitFor(await writeStatus(pod, '1', running(before)));
    expect(ended.isOver()).toBe(false);
    // Without the message, and with another instance in between.
    await writeStatus(pod, '3', running(), terminated('2'));
    await ended.result;
  });

  test('is not proven if its token is in our own termination message: it is no earlier instance', async () => {
    await writeFile(terminationMessagePath, message);
    const pod = await createPod('exec');
    const ended = start((signal) => detectorIn(pod).waitForEnd('holder', holderIn(pod), signal));
    await eventually('it watches', async () => log.messages('debug').filter((line) => line === 'listed').length === 2);
    await progress.waitFor(await writeStatus(pod, '3', running(), terminated('2')));
    expect(ended.isOver()).toBe(false);
  });
});

describe('without permission to read pods', () => {
  test('a process warns once, and describes its container when it gets the permission', async () => {
    const kubectl = (await ensureBinaries(['kubectl'])).get('kubectl') ?? '';
    const run = async (...args: string[]): Promise<string> =>
      (await execa(kubectl, [...args, '--namespace', namespace], { env: { KUBECONFIG: cluster.kubeconfig } })).stdout;
    await run('create', 'serviceaccount', 'nobody');
    const token = await run('create', 'token', 'nobody');
    const config = yaml.parse(await readFile(cluster.kubeconfig, 'utf8'));
    config.users = config.users.map(({ name }: { name: string }) => ({ name, user: { token } }));
    const kubeconfig = join(folder, 'kubeconfig');
    await writeFile(kubeconfig, yaml.stringify(config));
    const transport = new Transport(await kubeconfigConnection(kubeconfig), { userAgent: 'test' });
    started.push(once(stop.signal, 'abort').then(() => transport.close()));

    const pod = await createPod('refused');
    await writeStatus(pod, '1', running());
    const own = start((signal) =>
      detectorIn(pod, { client: new HttpClient(transport, 'test') }).describeProcess('me', signal),
    );
    const refusals = () => log.lines.filter(({ message }) => message.startsWith('not allowed to read pods'));
    await eventually('several requests were refused', async () => refusals().length >= 3);
    expect(refusals().map(({ level }) => level)).toEqual([
      'warn',
      ...refusals()
        .slice(1)
        .map(() => 'debug'),
    ]);
    expect(log.messages('warn')).toHaveLength(1);
    await run('create', 'role', 'pods', '--verb=get,list,watch', '--resource=pods');
    await run('create', 'rolebinding', 'pods', '--role=pods', `--serviceaccount=${namespace}:nobody`);
    expect(parse(await own.result).containerId).toBe('containerd://1');
  });
});

describe('a leader that crashed', () => {
  // Longer than a test may take, so that no Lease expires.
  const timings = { leaseDurationSeconds: 600, renewDeadlineSeconds: 500, retryPeriodSeconds: 0.2 };

  /** A candidate that leads until the test is over. A crash closes its connections. */
  async function candidate(
    name: string,
    identity: string,
    crashDetector: PodCrashDetector,
  ): Promise<{ readonly leads: Promise<void>; crash(): Promise<void> }> {
    const transport = new Transport(await kubeconfigConnection(cluster.kubeconfig), { userAgent: identity });
    const options: LeaderElectorOptions = {
      client: new HttpClient(transport, identity),
      lease: { namespace, name },
      identity,
      timings,
      log,
      crashDetector,
    };
    const leads = Promise.withResolvers<void>();
    const lead = async (signal: AbortSignal): Promise<void> => {
      leads.resolve();
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    };
    start((signal) => new LeaderElector(options).run(signal, lead).finally(() => transport.close()));
    return { leads: leads.promise, crash: () => transport.close() };
  }

  const published = async (name: string): Promise<string> =>
    eventually('the leader has published its container', async () => {
      const { annotations = {} } = (await cluster.client.get(Lease, { namespace, name })).metadata;
      return annotations[annotation];
    });

  test('is succeeded by a standby as soon as the kubelet reports its termination', async () => {
    const pod = await createPod('crashes');
    await writeStatus(pod, '1', running());
    const first = await candidate('crash', 'first', detectorIn(pod));
    await inTime('the first leads', first.leads);
    const { terminationToken } = JSON.parse(await published('crash'));
    const second = await candidate('crash', 'second', detectorIn(await createPod('stands-by')));
    await eventually('the standby watches', async () => log.messages('info').includes('another candidate leads'));
    await first.crash();
    await writeStatus(pod, '1', terminated('1', { message: `leader election: ${terminationToken}\n` }));
    await inTime('the second leads', second.leads);
    expect((await cluster.client.get(Lease, { namespace, name: 'crash' })).spec?.holderIdentity).toBe('second');
  });

  test('is succeeded by its own container after a restart', async () => {
    const pod = await createPod('restarts');
    await writeStatus(pod, '1', running());
    const first = await candidate('restart', 'first', detectorIn(pod));
    await inTime('the first leads', first.leads);
    await published('restart');
    await first.crash();
    // The new instance has a new file.
    await writeFile(terminationMessagePath, '');
    await writeStatus(pod, '2', running(), terminated('1', { reason: 'OOMKilled' }));
    const second = await candidate('restart', 'second', detectorIn(pod));
    await inTime('the second leads', second.leads);
    const holder = async () => (await cluster.client.get(Lease, { namespace, name: 'restart' })).spec?.holderIdentity;
    expect(await holder()).toBe('second');
    await eventually('the new leader has published its container', async () =>
      (await published('restart')).includes('containerd://2'),
    );
  });
});
