import { describe, expect, test } from '@jest/globals';
import { ConfigError, readConfig } from '../../src/config.ts';
import { leaderElectionOf } from '../../src/runner.ts';
import { RecordingLog } from '../../testkit/recording-log.ts';

const pod = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };
const own = { NAMESPACE: 'echo-system', HA_LEASE_LOCK_NAME: 'echo', HA_NODE_ID: 'pod-1' };
const electionIn = (environment: NodeJS.ProcessEnv) =>
  leaderElectionOf(readConfig(environment), environment, new RecordingLog());

describe('leader election', () => {
  test.each([
    ['in a cluster', pod],
    ['outside a cluster', { KUBECONFIG: '/home/jane/.kube/config' }],
  ])('is on with high availability, %s', (_, where) => {
    const settings = { HA_LEASE_DURATION_SECONDS: '30', HA_RENEW_DEADLINE_SECONDS: '20', HA_RETRY_PERIOD_SECONDS: '4' };
    expect(electionIn({ ...own, ...where, ...settings, HA_ENABLED: 'true', HA_WARM_STANDBY: 'true' })).toMatchObject({
      lease: { namespace: 'echo-system', name: 'echo' },
      timings: { leaseDurationSeconds: 30, renewDeadlineSeconds: 20, retryPeriodSeconds: 4 },
      warmStandby: true,
    });
  });

  test('is on for a single replica in a cluster, which is never a warm standby', () => {
    expect(electionIn({ ...own, ...pod, HA_WARM_STANDBY: 'true' })).toMatchObject({
      lease: { namespace: 'echo-system', name: 'echo' },
      warmStandby: false,
    });
  });

  test.each([
    ['outside a cluster', {}],
    ['with a kubeconfig, also in a cluster', { ...pod, KUBECONFIG: '/home/jane/.kube/config' }],
  ])('is off for a single process %s', (_, where) => {
    expect(electionIn({ ...own, ...where })).toBeUndefined();
  });

  test('has crash detection if the process knows its own pod and container', () => {
    const container = { POD_NAME: 'pod-1', POD_UID: '1', CONTAINER_NAME: 'operator' };
    expect(electionIn({ ...own, ...pod, ...container })?.crashDetector).toBeDefined();
    for (const missing of Object.keys(container)) {
      expect(electionIn({ ...own, ...pod, ...container, [missing]: '' })?.crashDetector).toBeUndefined();
    }
  });

  test('has different identities for two processes with the same node ID', () => {
    const [one, other] = [electionIn({ ...own, ...pod }), electionIn({ ...own, ...pod })];
    expect(one?.identity).toMatch(/^pod-1_[-0-9a-f]{36}$/);
    expect(other?.identity).toMatch(/^pod-1_[-0-9a-f]{36}$/);
    expect(other?.identity).not.toBe(one?.identity);
  });

  test.each([
    [
      { HA_RENEW_DEADLINE_SECONDS: '15' },
      "HA_LEASE_DURATION_SECONDS: got 15, takes more than HA_RENEW_DEADLINE_SECONDS's 15",
    ],
    [
      { HA_RETRY_PERIOD_SECONDS: '9' },
      "HA_RENEW_DEADLINE_SECONDS: got 10, takes more than 1.2 times HA_RETRY_PERIOD_SECONDS's 9",
    ],
  ])('refuses times that contradict each other, even if it is off: %j', (settings, line) => {
    expect(() => electionIn({ ...own, ...settings })).toThrow(
      expect.objectContaining({ name: ConfigError.name, message: line }),
    );
  });
});
