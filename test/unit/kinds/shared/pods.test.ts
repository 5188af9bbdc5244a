import type { Pod } from '@echoperator/runtime/kinds';
import { describe, expect, test } from '@jest/globals';
import {
  affectsPodProblem,
  affectsPodReadiness,
  keepReadFields,
  overdueProblemAmong,
  podProblem,
  problemAmong,
  untilOverdueMs,
} from '../../../../src/kinds/shared/pods.ts';

type Status = NonNullable<Pod['status']>;
type Container = NonNullable<Status['containerStatuses']>[number];

const podOf = (status: Status, metadata: Partial<Pod['metadata']> = {}): Pod => ({
  metadata: {
    name: 'db-0',
    namespace: 'default',
    uid: 'uid-db-0',
    resourceVersion: '1',
    creationTimestamp: '2026-01-01T00:00:00Z',
    ...metadata,
  },
  spec: {
    nodeName: 'node-1',
    containers: [{ name: 'db', image: 'mongo:1', env: [{ name: 'PASSWORD', value: 'secret' }] }],
  },
  status,
});
const container = (rest: Partial<Container>): Container => ({
  name: 'db',
  image: 'mongo:1',
  imageID: '',
  ready: false,
  restartCount: 0,
  ...rest,
});
const running = (rest: Partial<Container>): Status => ({ phase: 'Running', containerStatuses: [container(rest)] });
const waiting = (reason?: string, message?: string): NonNullable<Container['state']> => ({
  waiting: { ...(reason && { reason }), ...(message && { message }) },
});
const terminated = (exitCode: number, reason: string, message?: string): NonNullable<Container['state']> => ({
  terminated: { exitCode, reason, ...(message && { message }) },
});
const condition = (type: string, status: string, rest: object = {}) => ({ type, status, ...rest });
const unschedulable = {
  phase: 'Pending',
  conditions: [condition('PodScheduled', 'False', { reason: 'Unschedulable', message: '0/1 nodes are available' })],
};

const samples: readonly (readonly [string, Status, string | undefined])[] = [
  ['without a node', unschedulable, 'pod db-0: FailedScheduling: 0/1 nodes are available'],
  [
    'held back by a gate',
    { phase: 'Pending', conditions: [condition('PodScheduled', 'False', { reason: 'SchedulingGated' })] },
    'pod db-0: SchedulingGated',
  ],
  [
    'whose image cannot be pulled',
    running({ state: waiting('ImagePullBackOff', 'Back-off pulling image "mongo:1": ErrImagePull: no such host') }),
    'pod db-0: ImagePullBackOff: Back-off pulling image "mongo:1"',
  ],
  [
    'whose Secret is missing',
    running({ state: waiting('CreateContainerConfigError', 'secret "db" not found') }),
    'pod db-0: CreateContainerConfigError: secret "db" not found',
  ],
  [
    'whose problem has several lines',
    running({ state: waiting('CreateContainerError', 'no such\n  command ') }),
    'pod db-0: CreateContainerError: no such command',
  ],
  [
    'that was out of memory and waits to be restarted',
    running({ state: waiting('CrashLoopBackOff', 'back-off 40s'), lastState: terminated(137, 'OOMKilled') }),
    'pod db-0: OOMKilled (exit code 137)',
  ],
  [
    'that was out of memory and runs again, not ready yet',
    running({ state: { running: {} }, lastState: terminated(137, 'OOMKilled') }),
    'pod db-0: OOMKilled (exit code 137)',
  ],
  [
    'that crashes, without its own words',
    running({ state: waiting('CrashLoopBackOff'), lastState: terminated(1, 'Error', 'password=secret') }),
    'pod db-0: Error (exit code 1)',
  ],
  [
    'whose program is missing, in the words of the container runtime',
    running({ state: terminated(128, 'StartError', 'exec: "x": not found') }),
    'pod db-0: StartError (exit code 128): exec: "x": not found',
  ],
  [
    'that is restarted, nobody knows why',
    running({ state: waiting('CrashLoopBackOff') }),
    'pod db-0: CrashLoopBackOff',
  ],
  [
    'that was evicted',
    { phase: 'Failed', reason: 'Evicted', message: 'low on memory' },
    'pod db-0: Evicted: low on memory',
  ],
  [
    'that has failed',
    { ...running({ state: terminated(2, 'Error') }), phase: 'Failed' },
    'pod db-0: Error (exit code 2)',
  ],
  [
    'whose first steps fail',
    {
      ...running({ state: waiting('PodInitializing') }),
      initContainerStatuses: [container({ state: terminated(3, 'Error') })],
    },
    'pod db-0: Error (exit code 3)',
  ],
  ['that is new', {}, undefined],
  ['that is starting', running({ state: waiting('ContainerCreating') }), undefined],
  ['that runs', running({ state: { running: {} } }), undefined],
  [
    'whose first steps are done',
    {
      ...running({ state: waiting('PodInitializing') }),
      initContainerStatuses: [container({ state: terminated(0, 'Completed') })],
    },
    undefined,
  ],
  [
    'that is ready again',
    { ...running({ ready: true, lastState: terminated(137, 'OOMKilled') }), conditions: [condition('Ready', 'True')] },
    undefined,
  ],
  [
    'whose node is lost',
    { ...running({ ready: true }), conditions: [condition('Ready', 'False')] },
    'pod db-0: its containers are ready, but the pod is not: node node-1 may be lost (kubectl describe node node-1), or a readiness gate is not met',
  ],
  [
    'with a sidecar that is not ready',
    {
      ...running({ ready: true }),
      conditions: [condition('Ready', 'False')],
      initContainerStatuses: [container({ ready: false })],
    },
    undefined,
  ],
  ['that has succeeded', { ...running({ state: terminated(0, 'Completed') }), phase: 'Succeeded' }, undefined],
];

describe('podProblem', () => {
  test.each(samples)('%s', (_, status, expected) => {
    expect(podProblem(podOf(status))).toBe(expected);
  });

  test('is undefined for a pod that is being deleted, until a minute after the end of its grace period', () => {
    const at = '2026-01-01T00:00:00Z';
    const problemAfter = (seconds: number, status: Status): string | undefined =>
      podProblem(keepReadFields(podOf(status, { deletionTimestamp: at })), Date.parse(at) + seconds * 1000);
    expect(problemAfter(60, unschedulable)).toBeUndefined();
    for (const status of [unschedulable, running({ ready: true }), { phase: 'Succeeded' }]) {
      expect(problemAfter(61, status)).toBe(`pod db-0: still terminating since ${at}`);
    }
  });

  test('is constant while the pull of an image fails', () => {
    const pulls = [
      waiting('ErrImagePull', 'dial tcp 10.0.0.1:43210: i/o timeout'),
      waiting('ImagePullBackOff', 'Back-off pulling image "mongo:1"'),
      waiting('ErrImagePull', 'dial tcp 10.0.0.1:43999: i/o timeout'),
      waiting(
        'ImagePullBackOff',
        'Back-off pulling image "mongo:1": ErrImagePull: dial tcp 10.0.0.1:43999: i/o timeout',
      ),
      waiting('RegistryUnavailable', 'image pull failed for mongo:1 because the registry is unavailable'),
      waiting('SignatureValidationFailed', 'image pull failed for mongo:1 because the signature validation failed'),
    ].map((state) => keepReadFields(podOf(running({ state }))));
    expect([...new Set(pulls.map((pod) => podProblem(pod)))]).toEqual([
      'pod db-0: ImagePullBackOff: Back-off pulling image "mongo:1"',
    ]);
    const changes = pulls
      .slice(1)
      .map((object, index) => ({ type: 'modified', previous: pulls[index]!, object }) as const);
    expect(changes.filter(affectsPodProblem)).toEqual([]);
  });

  test.each(samples)('is the same for the pod that the cache keeps: %s', (_, status, expected) => {
    const kept = keepReadFields(podOf(status));
    expect(podProblem(kept)).toBe(expected);
    expect(JSON.stringify(kept)).not.toContain('PASSWORD');
  });

  test('of several pods is that of the youngest with a problem', () => {
    const at = (name: string, second: number, status: Status) =>
      podOf(status, { name, creationTimestamp: `2026-01-01T00:00:0${second}Z` });
    const pods = [at('a', 1, unschedulable), at('c', 2, unschedulable), at('b', 2, unschedulable), at('d', 3, {})];
    expect(problemAmong(pods)).toMatch(/^pod b: /);
    expect(problemAmong([at('d', 3, {})])).toBeUndefined();
  });
});

test('the time until a terminating pod is overdue is that of the first, not counting those that are', () => {
  const nowMs = Date.parse('2026-01-01T00:01:01Z');
  const terminatingAt = (time: string): Pod => podOf({}, { deletionTimestamp: `2026-01-01T${time}Z` });
  const pods = [podOf({}), terminatingAt('00:02:00'), terminatingAt('00:01:00'), terminatingAt('00:00:00')];
  const dueInMs = untilOverdueMs(pods, nowMs) ?? Number.NaN;
  expect(dueInMs).toBe(59_001);
  const due = nowMs + dueInMs;
  expect(pods.map((pod) => podProblem(pod, due - 1) !== podProblem(pod, due))).toEqual([false, false, true, false]);
  expect(untilOverdueMs([podOf({}), terminatingAt('00:00:00')], nowMs)).toBeUndefined();
});

describe('a pod that stays Pending without a cause in its status', () => {
  const status = { phase: 'Pending', containerStatuses: [container({ state: waiting('ContainerCreating') })] };
  const pod = keepReadFields(podOf(status));
  const at = (time: string): number => Date.parse(`2026-01-01T${time}Z`);

  test('has not started, and its Events say why; then no event tells', () => {
    expect(podProblem(pod, at('00:01:00'))).toBeUndefined();
    expect(untilOverdueMs([pod], at('00:00:20'))).toBe(40_001);
    expect(podProblem(pod, at('00:01:01'))).toBe(
      'pod db-0: not started since 2026-01-01T00:00:00Z (kubectl --namespace default describe pod db-0)',
    );
  });

  test('is reported until it starts', () => {
    const started = keepReadFields(podOf(running({ state: { running: {} } })));
    expect(affectsPodProblem({ type: 'modified', previous: pod, object: started })).toBe(true);
    expect(podProblem(started, at('00:01:01'))).toBeUndefined();
  });

  test('is not reported if the status says more, or if a Job watches it', () => {
    expect(podProblem(podOf(unschedulable), at('00:01:01'))).toContain('FailedScheduling');
    const { spec } = podOf({});
    const ofJob = { ...podOf(status), spec: { ...spec!, restartPolicy: 'Never' } };
    expect(podProblem(ofJob, at('00:01:01'))).toBeUndefined();
  });
});

describe('a pod whose container has ended while another runs', () => {
  const nowMs = Date.parse('2026-01-01T00:02:00Z');
  const ended = (exitCode: number, finishedAt?: string) =>
    container({ name: 'echo', state: { terminated: { exitCode, ...(finishedAt && { finishedAt }) } } }) as Container;
  const sidecar = (name: string) => container({ name, ready: true, state: { running: {} } });
  const podWith = (containerStatuses: readonly Container[], restartPolicy = 'Never'): Pod => {
    const pod = podOf({ phase: 'Running', containerStatuses: [...containerStatuses] });
    return { ...pod, spec: { ...pod.spec!, restartPolicy } };
  };
  const end = '2026-01-01T00:00:30Z';

  test.each([
    [[ended(0, end), sidecar('proxy')], 'has completed, but container proxy still runs, so the pod does not end'],
    [
      [sidecar('proxy'), ended(1, end)],
      'has failed (exit code 1), but container proxy still runs, so the pod does not end',
    ],
    [
      [ended(0, end), sidecar('proxy'), sidecar('logs')],
      'has completed, but 2 others still run, among them proxy, so the pod does not end',
    ],
    [[ended(0), sidecar('proxy')], 'has completed, but container proxy still runs, so the pod does not end'],
  ])('says which: %j', (containers, expected) => {
    const pod = podWith(containers);
    expect(podProblem(pod, nowMs)).toBe(`pod db-0: container echo ${expected}`);
    expect(podProblem(keepReadFields(pod), nowMs)).toBe(`pod db-0: container echo ${expected}`);
    expect(overdueProblemAmong([podOf(running({ state: terminated(1, 'Error') })), pod], nowMs)).toBe(
      `pod db-0: container echo ${expected}`,
    );
  });

  test('is no problem for a minute, in which a sidecar may end too, also if the clock of the node is behind; then no event tells', () => {
    const pod = keepReadFields(podWith([ended(0, '2026-01-01T00:01:05Z'), sidecar('proxy')]));
    expect(podProblem(pod, nowMs)).toBeUndefined();
    expect(overdueProblemAmong([pod], nowMs)).toBeUndefined();
    const dueInMs = untilOverdueMs([pod], nowMs) ?? Number.NaN;
    expect(dueInMs).toBe(5001);
    expect(podProblem(pod, nowMs + dueInMs)).toContain('proxy still runs');
    const before = podWith([sidecar('echo'), sidecar('proxy')]);
    expect(affectsPodProblem({ type: 'modified', previous: keepReadFields(before), object: pod })).toBe(true);
  });

  test.each([
    ['that the kubelet starts again', podWith([ended(0, end), sidecar('proxy')], 'Always')],
    ['and the other ended too', podWith([ended(0, end), ended(0, end)])],
    ['and both run', podWith([sidecar('echo'), sidecar('proxy')])],
  ])('is no problem if it is one %s', (_, pod) => {
    expect(overdueProblemAmong([pod], nowMs)).toBeUndefined();
    expect(untilOverdueMs([pod], 0)).toBeUndefined();
  });
});

describe('a change of a pod', () => {
  const [fine, troubled] = [podOf({}), podOf(unschedulable)];
  const terminating = podOf({}, { deletionTimestamp: '2999-01-01T00:00:00Z' });

  test.each([
    ['that comes with a problem', { type: 'added', object: troubled }, true],
    ['that comes without one', { type: 'added', object: fine }, false],
    ['that gets one', { type: 'modified', previous: fine, object: troubled }, true],
    ['that loses it', { type: 'modified', previous: troubled, object: fine }, true],
    ['that keeps it', { type: 'modified', previous: troubled, object: troubled }, false],
    ['that goes with it', { type: 'deleted', object: troubled }, true],
    // No event follows when it is overdue.
    ['that begins to terminate', { type: 'modified', previous: fine, object: terminating }, true],
    ['that goes on terminating', { type: 'modified', previous: terminating, object: terminating }, false],
    ['that ends', { type: 'deleted', object: terminating }, true],
  ] as const)('%s: %s', (_, delta, expected) => {
    expect(affectsPodProblem(delta)).toBe(expected);
  });

  const ready = podOf({ conditions: [condition('Ready', 'True')] });
  const unready = podOf({ conditions: [condition('Ready', 'False')] });

  test.each([
    ['that becomes ready', { type: 'modified', previous: unready, object: ready }, true],
    ['that becomes unready', { type: 'modified', previous: ready, object: unready }, true],
    ['that stays ready', { type: 'modified', previous: ready, object: ready }, false],
    ['that comes ready', { type: 'added', object: ready }, true],
    ['that comes unready', { type: 'added', object: unready }, false],
    ['that goes ready', { type: 'deleted', object: ready }, true],
  ] as const)('%s: its readiness has changed: %s', (_, delta, expected) => {
    expect(affectsPodReadiness(delta)).toBe(expected);
  });
});

test('the cache keeps no container state of a healthy pod', () => {
  const status = { ...running({ ready: true, state: { running: {} } }), conditions: [condition('Ready', 'True')] };
  expect(keepReadFields(podOf(status)).status?.containerStatuses).toEqual([container({ ready: true, image: '' })]);
});

test('the cache keeps only the labels that are read, and the reference of the controller', () => {
  const reference = { apiVersion: 'batch/v1', kind: 'Job', name: 'j', uid: 'uid-j' };
  const many = Array.from({ length: 10_000 }, (_, each) => ({ ...reference, uid: `uid-${each}` }));
  const unread = Object.fromEntries(many.map(({ uid }) => [uid, 'x']));
  const { metadata } = keepReadFields(
    podOf(
      {},
      {
        labels: { ...unread, app: 'shop' },
        ownerReferences: [...many, { ...reference, controller: true }],
        finalizers: many.map(({ uid }) => `example.com/${uid}`),
      },
    ),
  );
  expect(metadata).toMatchObject({ labels: { app: 'shop' }, ownerReferences: [{ uid: 'uid-j' }] });
  expect(JSON.stringify(metadata).length).toBeLessThan(500);
});

test('the cache keeps no text of a megabyte', () => {
  const image = 'x'.repeat(1_000_000);
  const state = waiting('InvalidImageName', `Failed to apply default image tag "${image}"`);
  const lastState = terminated(1, 'Error', image);
  expect(JSON.stringify(keepReadFields(podOf(running({ image, state, lastState })))).length).toBeLessThan(20_000);
  const failed = { phase: 'Failed', reason: 'Evicted', message: image };
  expect(JSON.stringify(keepReadFields(podOf(failed))).length).toBeLessThan(20_000);
});

test('a problem of a megabyte is cut', () => {
  const problem = podProblem(podOf({ phase: 'Failed', reason: 'Evicted', message: `${' '.repeat(1_000_000)}x` }));
  expect(problem?.length).toBeLessThan(5000);
});

test('the next of very many pods that is overdue is found', () => {
  const nowMs = Date.parse('2026-01-01T00:00:00Z');
  const pod = podOf({}, { deletionTimestamp: '2026-01-01T00:00:00Z' });
  expect(untilOverdueMs(Array<Pod>(200_000).fill(pod), nowMs)).toBe(60_001);
});
