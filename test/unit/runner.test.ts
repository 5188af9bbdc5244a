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
  ])('is for a single process %s only for the check of its scope', (_, where) => {
    expect(electionIn({ ...own, ...where })).toMatchObject({
      lease: { namespace: 'echo-system', name: 'echoperator-by-hand' },
      timings: { leaseDurationSeconds: 60 },
    });
    expect(electionIn({ ...own, ...where, SCOPE_CHECK: 'false' })).toBeUndefined();
  });

  test('of single processes is one for each set of namespaces', () => {
    const nameFor = (namespaces: string) => electionIn({ ...own, WATCH_NAMESPACES: namespaces })?.lease.name;
    expect(nameFor('a,b')).toMatch(/^echoperator-by-hand-[0-9a-f]{10}$/);
    expect(nameFor('b,a')).toBe(nameFor('a,b'));
    expect(nameFor('a')).not.toBe(nameFor('a,b'));
  });

  const external = { KUBECONFIG: '/home/jane/.kube/config' };

  test.each([
    ['in a cluster looks for others in its own namespace', pod, 'ownNamespace'],
    ['outside a cluster, with standbys, does so too', { ...external, HA_ENABLED: 'true' }, 'ownNamespace'],
    ['alone outside a cluster looks for others everywhere', external, 'allNamespaces'],
  ] as const)('%s', (_, where, lookIn) => {
    const scopeIn = (settings: object) => electionIn({ ...own, HA_ENABLED: 'false', ...where, ...settings })?.scope;
    expect(scopeIn({})).toEqual({ namespaces: 'all', lookIn });
    expect(scopeIn({ WATCH_NAMESPACES: 'a' })).toEqual({ namespaces: ['a'], lookIn });
    expect(scopeIn({ SCOPE_CHECK: 'false' })).toBeUndefined();
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
