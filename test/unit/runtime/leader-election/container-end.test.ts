import { describe, expect, test } from '@jest/globals';
import type { Pod } from '../../../../src/runtime/kinds/index.ts';
import { hasEnded, hasEndedBefore } from '../../../../src/runtime/leader-election/container-end.ts';
import type { HolderContainer } from '../../../../src/runtime/leader-election/index.ts';

const container: HolderContainer = {
  namespace: 'ops',
  podName: 'operator-0',
  podUid: 'uid-1',
  containerName: 'operator',
  containerId: 'containerd://1',
  terminationToken: 'token-1',
};

type Statuses = NonNullable<Pod['status']>;
type State = NonNullable<NonNullable<Statuses['containerStatuses']>[number]['state']>;

const terminated = (changes: Partial<NonNullable<State['terminated']>> = {}): State => ({
  terminated: {
    containerID: 'containerd://1',
    exitCode: 137,
    reason: 'Error',
    message: 'leader election: token-1\n',
    ...changes,
  },
});

const status = (state: State, lastState: State = {}, containerID = 'containerd://1') => ({
  name: 'operator',
  image: 'operator',
  imageID: '',
  ready: false,
  restartCount: 1,
  containerID,
  state,
  lastState,
});

const podWith = (statuses: Partial<Statuses>, uid = 'uid-1'): Pod => ({
  metadata: { name: 'operator-0', namespace: 'ops', uid, resourceVersion: '1', creationTimestamp: '' },
  status: statuses,
});
const pod = (...args: Parameters<typeof status>): Pod => podWith({ containerStatuses: [status(...args)] });
const running = { running: { startedAt: '2026-01-01T00:00:00Z' } };

describe('that a container has ended is proven', () => {
  test.each<[string, Pod]>([
    ['by its present state', pod(terminated())],
    ['by its last state, when another instance is running', pod(running, terminated(), 'containerd://2')],
    [
      'by its last state, when it waits to be restarted',
      pod({ waiting: { reason: 'CrashLoopBackOff' } }, terminated()),
    ],
    ['of a sidecar', podWith({ initContainerStatuses: [status(terminated())] })],
    ['by an exit code 0', pod(terminated({ exitCode: 0, reason: 'Completed' }))],
    ['behind what others have written', pod(terminated({ message: 'OOM: leader election: token-1\nand more' }))],
  ])('%s', (_, seen) => {
    expect(hasEnded(seen, container)).toBe(true);
  });
});

describe('nothing is proven', () => {
  test.each<[string, Pod]>([
    ['by a running container', pod(running)],
    ['by a waiting one', pod({ waiting: { reason: 'ContainerCreating' } })],
    ['by a pod without a status', podWith({})],
    ['by a phase', podWith({ phase: 'Failed', reason: 'NodeLost' })],
    ['of a pod with another uid', podWith({ containerStatuses: [status(terminated())] }, 'uid-2')],
    ['by another container', podWith({ containerStatuses: [{ ...status(terminated()), name: 'sidecar' }] })],
    ['by another instance', pod(terminated({ containerID: 'containerd://0' }))],
    ['by an instance without an ID', pod(terminated({ containerID: '' }))],
    ['by what the kubelet did not find', pod(terminated({ reason: 'ContainerStatusUnknown' }))],
    ['by what containerd did not find after its restart', pod(terminated({ reason: 'Unknown', exitCode: 1 }))],
    ['by an exit code that no runtime has seen', pod(terminated({ exitCode: 255 }))],
    ['without a reason', pod(terminated({ reason: '' }))],
    ['by a message that it did not write', pod(terminated({ message: 'leader election: token-0\n' }))],
  ])('%s', (_, seen) => {
    expect(hasEnded(seen, container)).toBe(false);
  });

  test('without a message', () => {
    const { message: _, ...silent } = terminated().terminated ?? { exitCode: 137 };
    expect(hasEnded(pod({ terminated: silent }), container)).toBe(false);
  });

  test('of a container that has no ID, even by a status that has none', () => {
    expect(hasEnded(pod(terminated({ containerID: '' })), { ...container, containerId: '' })).toBe(false);
  });
});

describe('an earlier instance has ended', () => {
  test.each<[string, Pod]>([
    ['when the status says so, with whatever message', pod(running, terminated({ message: '' }), 'containerd://2')],
    ['when it waits to be restarted', pod({ waiting: { reason: 'CrashLoopBackOff' } }, terminated())],
    [
      'when the status speaks of later ones',
      pod(running, terminated({ containerID: 'containerd://2' }), 'containerd://3'),
    ],
  ])('%s', (_, seen) => {
    expect(hasEndedBefore(seen, container)).toBe(true);
  });
});

describe('an earlier instance is not known to have ended', () => {
  const invented = { containerID: '', reason: 'ContainerStatusUnknown' };
  test.each<[string, Pod]>([
    ['while the status still shows it', pod(running)],
    ['while the status shows it and one before it', pod(running, terminated({ containerID: 'containerd://0' }))],
    ['by a status without any termination', pod(running, {}, 'containerd://2')],
    ['by one that does not show the present one', pod({}, terminated({ containerID: 'containerd://0' }), '')],
    ['when the runtime has lost it', pod(running, terminated(invented), 'containerd://2')],
    ['when its exit code was invented', pod(running, terminated({ exitCode: 255 }), 'containerd://2')],
    ['when its reason was invented', pod(running, terminated({ reason: 'Unknown' }), 'containerd://2')],
    ['by a pod with another uid', podWith({ containerStatuses: [status(running, terminated(), '2')] }, 'uid-2')],
  ])('%s', (_, seen) => {
    expect(hasEndedBefore(seen, container)).toBe(false);
  });
});
