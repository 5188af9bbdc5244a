import type { Pod } from '@echoperator/runtime/kinds';
import { describe, expect, test } from '@jest/globals';
import type { ContainerInstance } from '../../../../../packages/runtime/src/leader-election/crash-detection/container-instance.ts';
import {
  provesEarlierTermination,
  provesTermination,
} from '../../../../../packages/runtime/src/leader-election/crash-detection/termination-proof.ts';

const container: ContainerInstance = {
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

describe('the termination of an instance is proven', () => {
  test.each<[string, Pod]>([
    ['by the current state', pod(terminated())],
    ['by the last state, while a later instance runs', pod(running, terminated(), 'containerd://2')],
    [
      'by the last state, while the container waits for its restart',
      pod({ waiting: { reason: 'CrashLoopBackOff' } }, terminated()),
    ],
    ['for a sidecar', podWith({ initContainerStatuses: [status(terminated())] })],
    ['with exit code 0', pod(terminated({ exitCode: 0, reason: 'Completed' }))],
    [
      'by a token after other text in the message',
      pod(terminated({ message: 'OOM: leader election: token-1\nand more' })),
    ],
  ])('%s', (_, seen) => {
    expect(provesTermination(seen, container)).toBe(true);
  });
});

describe('the termination of an instance is not proven', () => {
  test.each<[string, Pod]>([
    ['by a running container', pod(running)],
    ['by a waiting container', pod({ waiting: { reason: 'ContainerCreating' } })],
    ['by a pod without a status', podWith({})],
    ['by the phase of the pod', podWith({ phase: 'Failed', reason: 'NodeLost' })],
    ['by a pod with another uid', podWith({ containerStatuses: [status(terminated())] }, 'uid-2')],
    ['by another container', podWith({ containerStatuses: [{ ...status(terminated()), name: 'sidecar' }] })],
    ['by another instance', pod(terminated({ containerID: 'containerd://0' }))],
    ['by a termination without a container ID', pod(terminated({ containerID: '' }))],
    ['by a container that the kubelet did not find', pod(terminated({ reason: 'ContainerStatusUnknown' }))],
    ['by a task that containerd did not find after its restart', pod(terminated({ reason: 'Unknown', exitCode: 1 }))],
    ['by the exit code for an unknown one', pod(terminated({ exitCode: 255 }))],
    ['without a reason', pod(terminated({ reason: '' }))],
    ['by a message with another token', pod(terminated({ message: 'leader election: token-0\n' }))],
  ])('%s', (_, seen) => {
    expect(provesTermination(seen, container)).toBe(false);
  });

  test('without a message', () => {
    const { message: _, ...silent } = terminated().terminated ?? { exitCode: 137 };
    expect(provesTermination(pod({ terminated: silent }), container)).toBe(false);
  });

  test('for an instance without an ID, by a termination without one', () => {
    expect(provesTermination(pod(terminated({ containerID: '' })), { ...container, containerId: '' })).toBe(false);
  });
});

describe('the termination of an earlier instance is proven', () => {
  test.each<[string, Pod]>([
    ['by its last state, whatever the message', pod(running, terminated({ message: '' }), 'containerd://2')],
    ['while the container waits for its restart', pod({ waiting: { reason: 'CrashLoopBackOff' } }, terminated())],
    [
      'by a status that shows only later instances',
      pod(running, terminated({ containerID: 'containerd://2' }), 'containerd://3'),
    ],
  ])('%s', (_, seen) => {
    expect(provesEarlierTermination(seen, container)).toBe(true);
  });
});

describe('the termination of an earlier instance is not proven', () => {
  const notFound = { containerID: '', reason: 'ContainerStatusUnknown' };
  test.each<[string, Pod]>([
    ['while the status still shows it', pod(running)],
    [
      'while the status shows it and the instance before it',
      pod(running, terminated({ containerID: 'containerd://0' })),
    ],
    ['by a status without a termination', pod(running, {}, 'containerd://2')],
    ['by a status without a current instance', pod({}, terminated({ containerID: 'containerd://0' }), '')],
    ['by a container that the kubelet did not find', pod(running, terminated(notFound), 'containerd://2')],
    ['by the exit code for an unknown one', pod(running, terminated({ exitCode: 255 }), 'containerd://2')],
    ['by the reason for an unknown one', pod(running, terminated({ reason: 'Unknown' }), 'containerd://2')],
    ['by a pod with another uid', podWith({ containerStatuses: [status(running, terminated(), '2')] }, 'uid-2')],
  ])('%s', (_, seen) => {
    expect(provesEarlierTermination(seen, container)).toBe(false);
  });
});
